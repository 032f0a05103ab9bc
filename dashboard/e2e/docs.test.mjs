// The page of the HTTP API at `/docs`: it shows every operation of `/openapi.json`, and survives a document with gaps.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Daemon, openWindow, violations } from './kit.mjs';

let daemon;
before(async () => (daemon = await Daemon.start()));
after(() => daemon.stop());

const plain = (text) => text.replaceAll('`', '').replace(/\s+/g, ' ').trim();

/** Opens the part of the page about one operation, and reads it. */
async function read(page, method, path) {
  const part = page.locator('details').filter({ has: page.locator('summary b', { hasText: new RegExp(`^${method}$`, 'i') }) }).filter({ has: page.locator('summary code', { hasText: new RegExp(`^${path.replace(/[.{}]/g, '\\$&')}$`) }) });
  assert.equal(await part.count(), 1, `${method} ${path} is on the page once`);
  await part.locator('summary').click();
  return plain(await part.innerText());
}

test('every operation has its summary, role, parameters and responses on the page', async () => {
  const document = await (await fetch(`${daemon.url}/openapi.json`)).json();
  const page = await openWindow(daemon);
  await page.goto('/docs');
  await page.locator('details').first().waitFor();
  let count = 0;
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      count += 1;
      const text = await read(page, method, path);
      const has = (what) => assert.ok(text.includes(plain(what)), `${method} ${path} says “${what}”: ${text}`);
      has(operation.summary);
      if (operation['x-role']) has(`Requires the role ${operation['x-role']}.`);
      for (const one of operation.parameters) has(one.name);
      for (const [status, response] of Object.entries(operation.responses)) {
        has(`${status}: ${response.description}`);
        Object.keys(response.content ?? {}).forEach(has);
      }
      assert.doesNotMatch(text, /undefined|\[object Object\]|TypeError/);
    }
  }
  assert.equal(await page.locator('details').count(), count);
  assert.ok(count > 20, `${count}`);
  assert.deepEqual(await violations(page), []);
  assert.deepEqual(page.complaints, []);
});

test('every body that the document describes has a schema', async () => {
  const document = await (await fetch(`${daemon.url}/openapi.json`)).json();
  const bodies = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).flatMap(([method, { responses, requestBody }]) =>
      [requestBody, ...Object.values(responses)].flatMap((one) => Object.entries(one?.content ?? {}).map(([type, { schema }]) => ({ of: `${method} ${path} ${type}`, schema }))),
    ),
  );
  assert.ok(bodies.length > 30, `${bodies.length}`);
  for (const { of, schema } of bodies) assert.ok(schema, `${of} has a schema`);
});

test('gaps in the document leave the rest of the page as it is', async () => {
  const page = await openWindow(daemon);
  const document = {
    openapi: '3.1.0',
    info: { title: 'Gaps', version: '1' },
    paths: {
      '/bare': { get: {} },
      '/bytes': { get: { summary: 'Bytes.', tags: ['runs'], responses: { 200: { description: 'Any bytes.', content: { 'application/octet-stream': {} } } } } },
      '/unknown': { get: { summary: 'Unknown.', responses: { 200: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Missing' } } } } } } },
      '/tree': { post: { summary: 'A tree.', parameters: [{ name: 'depth', in: 'query' }], requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Tree' } } } }, responses: {} } },
      '/broken': { get: { summary: 7 } },
      '/last': { get: { summary: 'The last one.', responses: { 204: { description: 'Done.' } } } },
    },
    components: { schemas: { Tree: { type: 'object', required: ['left', 'name'], properties: { left: { $ref: '#/components/schemas/Tree' } } } } },
  };
  await page.route('**/openapi.json', (route) => route.fulfill({ json: document }));
  await page.goto('/docs');
  await page.locator('details').first().waitFor();
  assert.equal(await page.locator('details').count(), 6);
  assert.match(await read(page, 'get', '/bytes'), /200: Any bytes\. application\/octet-stream/);
  assert.match(await read(page, 'get', '/unknown'), /Missing/);
  assert.match(await read(page, 'post', '/tree'), /depth.*"left"/);
  assert.match(await read(page, 'get', '/broken'), /cannot be shown/);
  assert.match(await read(page, 'get', '/last'), /204: Done\./);
  assert.deepEqual(page.complaints, []);
});

test('a request is sent from the page and its answer is shown', async () => {
  const page = await openWindow(daemon);
  await page.goto('/docs');
  const part = page.locator('details').filter({ hasText: 'POST' }).filter({ has: page.locator('summary code', { hasText: /^\/api\/v1\/runs$/ }) });
  await part.locator('summary').click();
  await part.getByLabel('Body').fill('{ "function": "inventory", "id": "from-docs", "input": 2 }');
  await part.getByRole('button', { name: 'Send' }).click();
  await part.getByText(/^201 Created[\s\S]*"id": "from-docs"/).waitFor();
  await daemon.reached('from-docs', 'completed');
  assert.deepEqual(page.complaints, []);
});
