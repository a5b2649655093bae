'use strict';
// Reading an open file to its end, and writing all of some data, in pieces as Node does it.

const { checkAborted, coded } = require('./errors.js');

const PIECE = 512 * 1024;
// Bytes of a read if the size is not known.
const UNKNOWN_PIECE = 64 * 1024;
const MOST = 2 ** 31 - 1;

async function read(handle, { encoding, signal }) {
  checkAborted(signal);
  const stats = await handle.stat();
  checkAborted(signal);
  const size = stats.isFile() ? stats.size : 0;
  if (size > MOST) {
    throw coded(RangeError, 'ERR_FS_FILE_TOO_LARGE', `File size (${size}) is greater than 2 GiB`);
  }
  const bytes = size > 0 ? await readSized(handle, size, signal) : await readToEnd(handle, signal);
  return encoding && encoding !== 'buffer' ? bytes.toString(encoding) : bytes;
}

async function readSized(handle, size, signal) {
  const bytes = Buffer.allocUnsafeSlow(size);
  let done = 0;
  while (done < size) {
    const { bytesRead } = await handle.read(bytes, done, Math.min(size - done, PIECE), -1);
    checkAborted(signal);
    if (bytesRead === 0) return bytes.subarray(0, done);
    done += bytesRead;
  }
  return bytes;
}

async function readToEnd(handle, signal) {
  const pieces = [];
  for (;;) {
    const piece = Buffer.allocUnsafeSlow(UNKNOWN_PIECE);
    const { bytesRead } = await handle.read(piece, 0, piece.length, -1);
    checkAborted(signal);
    if (bytesRead === 0) return Buffer.concat(pieces);
    pieces.push(piece.subarray(0, bytesRead));
  }
}

const isPieces = (data) =>
  data != null &&
  typeof data === 'object' &&
  !ArrayBuffer.isView(data) &&
  (Symbol.asyncIterator in data || Symbol.iterator in data);

/** Data to write: bytes, or pieces that are written in turn. `undefined` for what Node does not accept. */
function dataOf(data, { encoding }) {
  if (ArrayBuffer.isView(data) || isPieces(data)) return data;
  return typeof data === 'string' ? Buffer.from(data, encoding || 'utf8') : undefined;
}

async function write(handle, data, { encoding, signal }) {
  checkAborted(signal);
  if (ArrayBuffer.isView(data)) return writeBytes(handle, data, signal);
  for await (const piece of data) {
    checkAborted(signal);
    await writeBytes(
      handle,
      ArrayBuffer.isView(piece) ? piece : Buffer.from(piece, encoding || 'utf8'),
      signal,
    );
  }
}

async function writeBytes(handle, bytes, signal) {
  for (let done = 0; done < bytes.byteLength; ) {
    const { bytesWritten } = await handle.write(bytes, done, Math.min(bytes.byteLength - done, PIECE), null);
    done += bytesWritten;
    checkAborted(signal);
  }
}

module.exports = { read, dataOf, write };
