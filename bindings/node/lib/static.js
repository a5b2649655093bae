'use strict';
// Answers requests with the files below a directory, as `laio serve` does: the addon decides, and JavaScript sends.

const { statSync } = require('node:fs');
const { engine, isDone, settle, bytesOf } = require('./engine.js');
const { pathOf } = require('./arguments.js');
const { coded, failure } = require('./errors.js');
const { FileHandle } = require('./file_handle.js');

const ENOTDIR = -20;
// A file is read in pieces of this size, in bytes.
const PIECE = 128 * 1024;
// The fields on which a response depends.
const FIELDS = [
  'accept',
  'accept-encoding',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
  'range',
];

/**
 * A handler for `http`, Express and Connect, whose `fastify` is a plugin for Fastify. `next` gets what is not
 * found. The directory is opened now, and stays the same one if it is renamed.
 */
function staticFiles(directory, options = {}) {
  const { index = ['index.html'], precompressed = [], dotfiles = false, symlinks = 'within' } = options;
  const name = pathOf(directory);
  if (typeof name !== 'string') {
    throw coded(TypeError, 'ERR_INVALID_ARG_TYPE', 'The directory must be a string or a URL');
  }
  if (!statSync(name).isDirectory()) throw failure(ENOTDIR, 'open', name);
  const files = new engine.Files(name, index, precompressed, dotfiles, symlinks);
  const handler = (request, response, next) => answer(files, request.url, request, response, next);
  // Fastify's routes have the prefix of the plugin, which is not a part of the name.
  handler.fastify = async (instance) => {
    const handle = (request, reply) => {
      reply.hijack();
      return answer(files, below(instance.prefix, request.raw.url), request.raw, reply.raw);
    };
    instance.route({ method: ['GET', 'HEAD'], url: '/*', exposeHeadRoute: false, handler: handle });
  };
  return handler;
}

function below(prefix, url) {
  const rest = url.slice(prefix.length);
  return rest.startsWith('/') ? rest : `/${rest}`;
}

async function answer(files, url, request, response, next) {
  try {
    const given = files.respond(headOf(request, url));
    const decided = decode(bytesOf(isDone(given) ? given : await settle(given, 'open')));
    if (next && (decided.status === 404 || decided.status === 405)) return next();
    response.writeHead(decided.status, decided.fields);
    if (decided.file === undefined) response.end(decided.body);
    else await sendFile(decided, response);
  } catch (error) {
    // What was sent cannot be taken back: the client notices that the body is too short.
    if (response.headersSent) response.destroy(error);
    else if (next) next(error);
    else response.writeHead(500).end();
  }
}

/** The head as HTTP/1.1 writes it. No response depends on the host, but the parser insists on one. */
function headOf({ method, headers }, url) {
  let head = `${method} ${url} HTTP/1.1\r\nHost: localhost\r\n`;
  for (const name of FIELDS) {
    if (headers[name] !== undefined) head += `${name}: ${headers[name]}\r\n`;
  }
  return Buffer.from(`${head}\r\n`, 'latin1');
}

/** An answer, before anything is awaited: the next call uses the scratch memory. */
function decode(bytes) {
  const end = 4 + bytes.readUInt32LE(0);
  const [status, fd, parts, ...fields] = bytes.latin1Slice(4, end).split('\0');
  return {
    status: Number(status),
    fields,
    body: Buffer.from(bytes.subarray(end)),
    file: fd === '-1' ? undefined : new FileHandle({ fd: Number(fd) }),
    parts: parts.split(','),
  };
}

async function sendFile({ file, parts, body }, response) {
  try {
    let used = 0;
    for (const part of parts) {
      const [begin, end] = part.split('-').map(Number);
      if (end === undefined) await send(response, body.subarray(used, (used += begin)));
      else await sendRange(file, begin, end, response);
      if (response.destroyed) return;
    }
    response.end();
  } finally {
    await file.close();
  }
}

async function sendRange(file, begin, end, response) {
  for (let position = begin; position < end && !response.destroyed; ) {
    const length = Math.min(PIECE, end - position);
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafeSlow(length), 0, length, position);
    if (bytesRead === 0) throw new Error('the file became shorter while it was sent');
    position += bytesRead;
    await send(response, buffer.subarray(0, bytesRead));
  }
}

/** Sends bytes, and waits until the client has taken enough of them, or is gone. */
function send(response, bytes) {
  if (response.write(bytes) || response.destroyed) return undefined;
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done).off('close', done);
      resolve();
    };
    response.on('drain', done).on('close', done);
  });
}

module.exports = { staticFiles };
