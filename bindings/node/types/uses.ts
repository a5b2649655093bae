import type * as node from 'node:fs/promises';
import { detect, promises, stats, tryReadFile, tryStat } from '../index.js';

export { promises };

export async function readTextOf(...modules: (typeof node)[]): Promise<string | undefined> {
    for (const module of modules) await module.readFile('/etc/hosts', 'utf8');
    const handle = await promises.open('/etc/hosts');
    const read: { bytesRead: number } | undefined = handle.tryRead(Buffer.alloc(10));
    const lines: string[] = [];
    for await (const line of handle.readLines()) lines.push(line);
    const size: bigint | undefined = tryStat('/etc/hosts', { bigint: true })?.size;
    const detector = detect({ over: 50 }, ({ lasted, call }) => console.log(lasted + 1, call.length));
    await detector.stop();
    const calls: number = stats().inline + detector.stalls;
    return tryReadFile('/etc/hosts', 'utf8') ?? `${read?.bytesRead} ${size} ${calls} ${lines.length}`;
}
