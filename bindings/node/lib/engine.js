'use strict';
// Starts calls, and settles the promises of those that go on in the background.

const { Engine } = require('../laio.node');
const { failure, abortError } = require('./errors.js');

// The lowest answer that is an error number; those below it are numbers of calls.
const LOWEST_ERROR = -4095;
// Small files, names of directories and targets of links are read into this memory, in bytes.
const SCRATCH_SIZE = 64 * 1024;

const waiting = new Map();
const engine = new Engine(() => {
  const answers = engine.collect();
  for (let i = 0; i < answers.length; i += 2) {
    const call = waiting.get(answers[i]);
    waiting.delete(answers[i]);
    call.end(answers[i + 1]);
  }
});
const scratch = Buffer.allocUnsafeSlow(SCRATCH_SIZE);

const isDone = (answer) => typeof answer !== 'number' || answer >= 0;

/** The value of an answer, or a promise for it. Throws the error of a call that has failed. */
function settle(answer, syscall, path, dest, signal) {
  if (isDone(answer)) return answer;
  if (answer >= LOWEST_ERROR) throw failure(answer, syscall, path, dest);
  return new Promise((resolve, reject) => {
    const abort = () => {
      waiting.delete(answer);
      engine.cancel(answer);
      reject(abortError(signal));
    };
    const end = (last) => {
      signal?.removeEventListener('abort', abort);
      if (isDone(last)) resolve(last);
      else reject(failure(last, syscall, path, dest));
    };
    waiting.set(answer, { end });
    signal?.addEventListener('abort', abort, { once: true });
  });
}

/** The bytes of an answer: in the scratch memory, if it is their number. */
const bytesOf = (value) => (typeof value === 'number' ? scratch.subarray(0, value) : value);

module.exports = { engine, scratch, isDone, settle, bytesOf };
