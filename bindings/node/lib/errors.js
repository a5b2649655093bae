'use strict';
// Errors as Node makes them.

const fs = require('node:fs/promises');
const { getSystemErrorMap, inspect } = require('node:util');

/** The error of a system call; `errno` is negative. */
function failure(errno, syscall, path, dest) {
  const unknown = `Unknown system error ${errno}`;
  const [code, text] = getSystemErrorMap().get(errno) ?? [unknown, unknown];
  let message = `${code}: ${text}, ${syscall}`;
  if (path !== undefined) message += ` '${path}'`;
  if (dest !== undefined) message += ` -> '${dest}'`;
  const error = new Error(message);
  error.errno = errno;
  error.code = code;
  error.syscall = syscall;
  if (path !== undefined) error.path = String(path);
  if (dest !== undefined) error.dest = String(dest);
  return error;
}

function abortError(signal) {
  const error = new Error('The operation was aborted', { cause: signal.reason });
  error.name = 'AbortError';
  error.code = 'ABORT_ERR';
  return error;
}

function checkAborted(signal) {
  if (signal?.aborted) throw abortError(signal);
}

function closed(syscall) {
  return Object.assign(new Error('file closed'), { code: 'EBADF', syscall });
}

function coded(Class, code, message) {
  const error = new Class(message);
  error.code = code;
  // As Node: the code is part of the stack, not of the name.
  error.stack = error.stack.replace(Class.name, `${Class.name} [${code}]`);
  return error;
}

/**
 * Throws the error of Node for a call on an open file whose arguments it does not accept. It checks them
 * before it makes the call, so that it does not matter which file it is.
 */
async function refuse(method, args) {
  const handle = await fs.open('/dev/null', 'r+');
  try {
    await handle[method](...args);
  } finally {
    await handle.close();
  }
  throw coded(TypeError, 'ERR_INVALID_ARG_VALUE', `laio does not accept ${inspect(args)} for ${method}`);
}

module.exports = { failure, abortError, checkAborted, closed, coded, refuse };
