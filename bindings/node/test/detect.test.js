'use strict';
// Warnings about a loop that does not turn. What holds it up ends only after the warning.

const assert = require('node:assert/strict');
const { execFileSync, spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { Worker } = require('node:worker_threads');
const { directory } = require('./both.js');
const { detect } = require('../index.js');
const { Turns, Reports, MAX_REPORTS, REPORT_INTERVAL } = require('../lib/turns.js');

const INDEX = JSON.stringify(path.join(__dirname, '../index.js'));
const OVER = 40;
// Begins when the worker has begun.
const BEGIN = `const { detect } = require(${INDEX}), fs = require('node:fs'), file = process.argv[1];
const begun = (detector) => new Promise((resolve) => {
  const look = () => (detector.looks > 0 ? resolve(detector) : setTimeout(look, 1));
  look();
});`;

/** Runs a program that holds itself up, until it warns on the standard error; then `release` lets it go on. */
async function run(t, program, file, release) {
  const child = spawn(process.execPath, ['-e', BEGIN + program, file], { stdio: ['ignore', 'pipe', 'pipe'] });
  t.after(() => child.kill('SIGKILL'));
  const [out, errors] = [[], []];
  child.stdout.on('data', (data) => out.push(data));
  child.stderr.on('data', (data) => errors.push(data));
  child.stderr.once('data', release);
  const [code] = await once(child, 'close');
  const texts = [out, errors].map((list) => Buffer.concat(list).toString());
  assert.equal(code, 0, texts.join('\n'));
  return texts;
}

test('a call is named with its file while it lasts', async (t) => {
  const file = path.join(directory(t), 'fifo');
  execFileSync('mkfifo', [file]);
  // On a loaded machine the warning can come before the call.
  for (;;) {
    const program = `begun(detect({ over: ${OVER} })).then((detector) => {
      console.log(fs.readFileSync(file, 'utf8'), detector.stalls > 0);
    });`;
    const [out, errors] = await run(t, program, file, () => fs.writeFileSync(file, 'end'));
    assert.equal(out, 'end true\n');
    assert.match(errors, /^laio: the event loop has not turned for \d+ ms: /);
    if (!/: open(at)? /.test(errors)) continue;
    assert.ok(errors.includes(file), errors);
    assert.match(errors, /→ laio attempts it/);
    return;
  }
});

test('JavaScript that computes is named with its stack', async (t) => {
  const file = path.join(directory(t), 'file');
  // The first report can be about a thread without a processor, which has no stack.
  for (;;) {
    const program = `function computes() { while (!fs.existsSync(file)); }
      begun(detect({ over: ${OVER} })).then(computes);`;
    const [, errors] = await run(t, program, file, () => fs.writeFileSync(file, ''));
    fs.unlinkSync(file);
    if (!errors.includes('    at ')) continue;
    assert.match(errors, /ms: running\n/);
    assert.match(errors, /at computes \(/);
    return;
  }
});

test('a callback gets the stall when the loop turns again', async (t) => {
  let release;
  const stalled = new Promise((resolve) => (release = resolve));
  const detector = detect({ over: OVER, stack: false }, release);
  // The watch itself does not keep the process alive.
  const alive = setInterval(() => {}, 1000);
  t.after(() => {
    clearInterval(alive);
    return detector.stop();
  });
  while (detector.looks === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  while (detector.stalls === 0);
  const stall = await stalled;
  assert.ok(stall.lasted >= OVER, `${stall.lasted}`);
  assert.equal(stall.stack, '');
});

test('a loop that sleeps is not reported', async (t) => {
  const detector = detect({ over: 200 }, () => {});
  t.after(() => detector.stop());
  // A loaded machine can hold it up; a sleep that counted would be reported every third look.
  for (;;) {
    const { looks, stalls } = detector;
    while (detector.looks < looks + 5) await new Promise((resolve) => setTimeout(resolve, 20));
    if (detector.stalls === stalls) return;
  }
});

test('a loop of a worker is watched too', async () => {
  const program = `const { detect } = require(${INDEX}), { parentPort } = require('node:worker_threads');
    const detector = detect({ over: ${OVER} }, async (stall) => {
      parentPort.postMessage(stall.lasted);
      await detector.stop();
    });
    const look = () => (detector.looks > 0 ? hold() : setTimeout(look, 1));
    const hold = () => { while (detector.stalls === 0); setTimeout(() => {}, 100); };
    look();`;
  const worker = new Worker(program, { eval: true });
  const [lasted] = await once(worker, 'message');
  assert.ok(lasted >= OVER);
  await worker.terminate();
});

test('a watch keeps no process alive, and refuses bad options', async (t) => {
  const [out] = await run(t, 'detect(() => {}); detect({ over: 10 }); console.log("end");', '', () => {});
  assert.equal(out, 'end\n');
  for (const over of [0, -1, NaN, 2 ** 31]) assert.throws(() => detect({ over }), RangeError);
});

test('turns and the limit of reports', () => {
  const turns = new Turns(20);
  assert.deepEqual(
    [0, 10, 10, 10, 10, 10].map((elapsed) => turns.look(elapsed, 1)),
    ['recent', 'recent', 'late', 'stalled', 'recent', 'recent'],
  );
  assert.equal(turns.look(10, 2), 'recent');
  // Time in which the watch did not run counts at most a period.
  assert.equal(turns.look(1e6, 2), 'recent');
  for (let beats = 3; beats < 100; beats++) assert.equal(turns.look(10, beats), 'recent');
  const reports = new Reports();
  const admitted = Array.from({ length: MAX_REPORTS + 5 }, () => reports.admit(0));
  assert.deepEqual(admitted.filter((count) => count !== undefined), Array(MAX_REPORTS).fill(0));
  assert.equal(reports.admit(REPORT_INTERVAL), 5);
});
