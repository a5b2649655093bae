'use strict';
// Reading several parts of a file at the same time.

const { open } = require('../promises.js');
const { isWhole } = require('./arguments.js');
const { coded } = require('./errors.js');
const { FileHandle } = require('./file_handle.js');

/** The bytes of each range of a file: all reads are in flight together. Behind its end there are fewer. */
async function readRanges(file, ranges) {
  if (file instanceof FileHandle) return readAll(file, ranges);
  const handle = await open(file);
  try {
    return await readAll(handle, ranges);
  } finally {
    // It waits for reads that are in flight after an error.
    await handle.close();
  }
}

const readAll = (handle, ranges) =>
  Promise.all(Array.from(ranges, ({ position, length }) => readRange(handle, position, length)));

async function readRange(handle, position, length) {
  for (const [name, value] of Object.entries({ position, length })) {
    if (isWhole(value, 0, Number.MAX_SAFE_INTEGER)) continue;
    const text = `The ${name} of a range is no whole number from 0: ${String(value)}`;
    throw coded(RangeError, 'ERR_OUT_OF_RANGE', text);
  }
  const bytes = Buffer.allocUnsafeSlow(length);
  let done = 0;
  while (done < length) {
    const { bytesRead } = await handle.read(bytes, done, length - done, position + done);
    if (bytesRead === 0) return bytes.subarray(0, done);
    done += bytesRead;
  }
  return bytes;
}

module.exports = { readRanges };
