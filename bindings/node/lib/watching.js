'use strict';
// The worker of `detect`: looks whether the event loop of another thread beats, and finds out what it does.

const fs = require('node:fs');
const { parentPort, workerData } = require('node:worker_threads');
const { LoopThread } = require('./addon.js');
const { pausedStack } = require('./paused_stack.js');
const { Reports, Turns } = require('./turns.js');

// How long a loop that computes has to stop for its stack, in ms.
const STACK_WAIT = 1000;

const { counts, thread: number, over, withStack, toStderr } = workerData;
const beats = new Int32Array(counts);
const BEATS = 0;
const LOOKS = 1;
const STALLS = 2;
const thread = new LoopThread(number);
const turns = new Turns(over);
const reports = new Reports();
let last = performance.now();

setInterval(() => {
  const now = performance.now();
  const turn = turns.look(now - last, Atomics.load(beats, BEATS));
  last = now;
  if (turn === 'late') thread.remember();
  if (turn === 'stalled') {
    Atomics.add(beats, STALLS, 1);
    const unreported = reports.admit(now);
    if (unreported !== undefined) report(unreported);
  }
  Atomics.add(beats, LOOKS, 1);
}, turns.period);

async function report(unreported) {
  const beat = Atomics.load(beats, BEATS);
  const [call, subject, remedy] = thread.place();
  const stall = { lasted: turns.lasted, call, subject, remedy, stack: '', unreported };
  // JavaScript that waits in a call stops only when the call returns.
  if (withStack && call === '') {
    const hasTurned = () => Atomics.load(beats, BEATS) !== beat;
    stall.stack = (await pausedStack(STACK_WAIT, hasTurned)) ?? '';
  }
  if (toStderr) fs.writeSync(2, `laio: ${text(stall)}\n`);
  else parentPort.postMessage(stall);
}

function text({ lasted, call, subject, remedy, stack, unreported }) {
  const place = `${call} ${subject}`.trim() || 'running';
  const lines = [`the event loop has not turned for ${lasted.toFixed(0)} ms: ${place}`];
  if (stack) lines.push(stack);
  if (remedy) lines.push(`    → ${remedy}`);
  if (unreported > 0) lines.push(`    ${unreported} stalls before this one were not reported`);
  return lines.join('\n');
}
