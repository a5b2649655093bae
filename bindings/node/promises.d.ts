import type * as node from 'node:fs/promises';
import type { Mode, PathLike } from 'node:fs';

export * from 'node:fs/promises';

/** An open file of laio: Node's `FileHandle`, and `tryRead`. */
export interface FileHandle extends node.FileHandle {
    /** As `read`, but without a promise: `undefined` if it would block. It may read fewer bytes. */
    tryRead<T extends NodeJS.ArrayBufferView>(
        buffer: T,
        offset?: number | null,
        length?: number | null,
        position?: number | null,
    ): node.FileReadResult<T> | undefined;
}

export function open(path: PathLike, flags?: string | number, mode?: Mode): Promise<FileHandle>;
