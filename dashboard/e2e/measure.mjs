// Measures the page: `node e2e/measure.mjs [--json] [--quick] [MEASURE...]`. `TIFFANY_PROGRAM` names the program, built as released.
import { closeBrowser } from './kit.mjs';
import { all, FULL, NAMES, QUICK } from './measures.mjs';
import { json, table, verdicts } from './report.mjs';

const given = process.argv.slice(2);
const wanted = given.filter((one) => !one.startsWith('--'));
const wrong = given.find((one) => (one.startsWith('--') ? !['--json', '--quick'].includes(one) : !NAMES.includes(one)));
if (wrong !== undefined) {
  console.error(`there is no \`${wrong}\`; the options are --json and --quick, the measures ${NAMES.join(', ')}`);
  process.exit(2);
}
let isReached = true;
try {
  for await (const measure of all(given.includes('--quick') ? QUICK : FULL, wanted)) {
    console.log(given.includes('--json') ? json(measure) : table(measure));
    isReached &&= verdicts(measure).every((verdict) => verdict.isReached);
  }
} finally {
  await closeBrowser();
}
if (!isReached) process.exitCode = 1;
