'use strict';
// The stack of the main thread while it runs JavaScript, by the inspector, which stops it for a moment.

const FRAMES = 16;

/** The stack as text; `undefined` if the thread has not come to JavaScript before this time, in ms, or has turned. */
function pausedStack(limit, hasTurned) {
  const session = connected();
  if (!session) return undefined;
  return new Promise((resolve) => {
    const end = (stack) => {
      clearTimeout(timer);
      session.disconnect();
      resolve(stack);
    };
    const timer = setTimeout(end, limit);
    const files = new Map();
    session.on('Debugger.scriptParsed', ({ params }) => files.set(params.scriptId, params.url));
    session.once('Debugger.paused', ({ params }) => {
      const stack = hasTurned() ? undefined : text(params.callFrames, files);
      session.post('Debugger.resume');
      end(stack);
    });
    session.post('Debugger.enable');
    session.post('Debugger.pause');
  });
}

function connected() {
  try {
    const { Session } = require('node:inspector');
    const session = new Session();
    session.connectToMainThread();
    return session;
  } catch {
    // Node was built without it, or the loop is another worker's.
    return undefined;
  }
}

function text(frames, files) {
  const lines = frames.slice(0, FRAMES).map(({ functionName, location }) => {
    const file = files.get(location.scriptId) ?? '';
    const place = `${file}:${location.lineNumber + 1}:${location.columnNumber + 1}`;
    return functionName ? `    at ${functionName} (${place})` : `    at ${place}`;
  });
  return lines.join('\n');
}

module.exports = { pausedStack };
