import { describe, expect, it } from 'vitest';
import { fieldsOf, firstText, parsed, valueOf } from '../src/lib/schema';
import type { Schema } from '../src/lib/types';

const ORDER: Schema = {
  type: 'object',
  properties: {
    customer: { type: 'string' },
    cents: { type: 'integer', minimum: 1 },
    express: { type: 'boolean', default: true },
    size: { enum: ['s', 'm'], default: 'm' },
    weight: { type: ['number', 'null'] },
    note: { type: 'string', default: 'none' },
    items: { type: 'array', items: { type: 'string' } },
  },
  required: ['customer', 'cents', 'weight', 'items'],
};

describe('a form of a schema', () => {
  const fields = fieldsOf(ORDER)!;
  const first = Object.fromEntries(fields.map((field) => [field.name, firstText(field)]));

  it('has a field for each property, those that are needed first and in their order', () => {
    expect(fields.map((field) => [field.name, field.as, field.isRequired])).toEqual([
      ['customer', 'text', true], ['cents', 'integer', true], ['weight', 'number', true], ['items', 'json', true], ['express', 'flag', false], ['size', 'choice', false], ['note', 'text', false],
    ]);
    expect(first).toEqual({ customer: '', cents: '', express: 'true', size: '"m"', weight: '', note: 'none', items: '' });
  });

  it('makes the value', () => {
    const texts = { ...first, customer: 'Ada', cents: '42', items: '["tea"]', note: '' };
    expect(valueOf(fields, texts)).toEqual({ value: { customer: 'Ada', cents: 42, express: true, size: 'm', weight: null, items: ['tea'] } });
  });

  it('says what is wrong where', () => {
    const made = valueOf(fields, { ...first, cents: '1.5', weight: 'x', items: '[' });
    expect(made).toMatchObject({ problems: { cents: 'a whole number is required', weight: 'not a number', items: expect.stringContaining('not valid JSON') as string } });
    expect(valueOf(fields, { ...first, cents: '0', items: '[]' })).toEqual({ problems: { cents: 'at least 1' } });
  });

  it('is one field for one value, none for nothing, and JSON for the rest', () => {
    expect(valueOf(fieldsOf({ type: 'number' })!, { '': '2.5' })).toEqual({ value: 2.5 });
    expect(valueOf(fieldsOf({ type: 'null' })!, {})).toEqual({ value: null });
    expect(fieldsOf({ type: 'array' })).toBeNull();
    expect(fieldsOf(null)).toBeNull();
    expect(fieldsOf({ type: 'object', properties: { a: { anyOf: [{ type: 'string' }, { type: 'integer' }] } } })![0]!.as).toBe('json');
    expect(fieldsOf({ type: 'object', properties: { a: { anyOf: [{ type: 'string' }, { type: 'null' }] } } })![0]).toMatchObject({ as: 'text', isNullable: true });
  });

  it('offers what can be chosen by its title, and keeps what is fixed', () => {
    const fields = fieldsOf({ type: 'object', properties: { kind: { const: 'Order' }, size: { oneOf: [{ const: { $enum: 1 }, title: 'small' }, { const: 2 }] } }, required: ['kind', 'size'] })!;
    expect(fields.map((field) => field.as)).toEqual(['fixed', 'choice']);
    expect(fields[1]).toMatchObject({ choices: [{ text: 'small' }, { text: '2' }] });
    expect(valueOf(fields, { size: firstText(fields[1]!) })).toEqual({ value: { kind: 'Order', size: { $enum: 1 } } });
  });

  it('begins an object inside with the names that it needs', () => {
    const job: Schema = { type: 'object', properties: { topic: { type: 'string' }, depth: { type: 'integer' }, fast: { type: 'boolean', default: true }, mode: { anyOf: [{ enum: ['a', 'b'] }, { type: 'null' }] } }, required: ['topic', 'depth', 'mode'] };
    const of = (required: string[]) => firstText(fieldsOf({ type: 'object', properties: { job }, required })![0]!);
    expect(JSON.parse(of(['job']))).toEqual({ topic: '', depth: 0, mode: 'a' });
    expect(of([])).toBe('');
  });

  it('reads JSON', () => {
    expect(parsed('{"a":1}')).toEqual({ value: { a: 1 } });
    expect(parsed('nope')).toHaveProperty('problem');
  });
});
