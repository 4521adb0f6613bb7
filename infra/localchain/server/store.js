'use strict';
// The files that a restart needs, in one folder:
//
//   state         one snapshot: a JSON header of known length, then the
//                 runtime's own bytes; replaced atomically
//   transactions  one JSON line per transaction, appended; the snapshot's header
//                 says how many bytes of this file belong to that snapshot
//
// Lines are fsynced before the snapshot that counts them, and the snapshot is
// written aside, fsynced and renamed. A crash between the two leaves lines that
// no snapshot counts: load() cuts them off, and the chain is as it was at the
// last snapshot.

const fs = require('node:fs');
const path = require('node:path');

const MAGIC = 'memory-ledger-localchain/1\n';

// Writes all bytes, or throws: on a disk that fills up, one call writes only some of them.
function write(fd, bytes, at) {
  for (let done = 0; done < bytes.length; ) {
    done += fs.writeSync(fd, bytes, done, bytes.length - done, at + done);
  }
}

class Store {
  constructor(folder) {
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.folder = folder;
    this.state = path.join(folder, 'state');
    this.log = fs.openSync(path.join(folder, 'transactions'), fs.constants.O_RDWR | fs.constants.O_CREAT, 0o600);
    this.length = 0;
    this.pending = [];
    this.pendingLength = 0;
  }

  // Returns the last snapshot, { header, runtime, records }, or null in a new folder.
  load() {
    fs.rmSync(this.state + '.new', { force: true });
    if (!fs.existsSync(this.state)) {
      fs.ftruncateSync(this.log, 0);
      return null;
    }
    const bytes = fs.readFileSync(this.state);
    if (bytes.subarray(0, MAGIC.length).toString() !== MAGIC) {
      throw new Error(`${this.state} is not a state of this chain: move the folder away to start a new one`);
    }
    const headerLength = bytes.readUInt32LE(MAGIC.length);
    const start = MAGIC.length + 4;
    const header = JSON.parse(bytes.subarray(start, start + headerLength).toString());
    fs.ftruncateSync(this.log, header.logLength);
    this.length = header.logLength;
    return { header, runtime: bytes.subarray(start + headerLength), records: this.readAll() };
  }

  *readAll() {
    const bytes = Buffer.alloc(this.length);
    fs.readSync(this.log, bytes, 0, this.length, 0);
    for (let at = 0; at < bytes.length; ) {
      const end = bytes.indexOf(10, at);
      yield { record: JSON.parse(bytes.subarray(at, end).toString()), at, length: end - at };
      at = end + 1;
    }
  }

  // Queues a line for the next save, and returns its future place in the file.
  append(record) {
    const line = Buffer.from(JSON.stringify(record) + '\n');
    const at = this.length + this.pendingLength;
    this.pending.push({ at, line });
    this.pendingLength += line.length;
    return { at, length: line.length - 1 };
  }

  read({ at, length }) {
    if (at >= this.length) return JSON.parse(this.pending.find((p) => p.at === at).line.toString());
    const bytes = Buffer.alloc(length);
    fs.readSync(this.log, bytes, 0, length, at);
    return JSON.parse(bytes.toString());
  }

  save(header, runtime) {
    if (this.pending.length > 0) {
      write(this.log, Buffer.concat(this.pending.map((p) => p.line)), this.length);
      fs.fsyncSync(this.log);
      this.length += this.pendingLength;
      this.pending = [];
      this.pendingLength = 0;
    }
    const head = Buffer.from(JSON.stringify({ ...header, logLength: this.length }));
    const prefix = Buffer.alloc(MAGIC.length + 4);
    prefix.write(MAGIC);
    prefix.writeUInt32LE(head.length, MAGIC.length);
    const fd = fs.openSync(this.state + '.new', 'w', 0o600);
    write(fd, Buffer.concat([prefix, head, runtime]), 0);
    fs.fsyncSync(fd);
    fs.closeSync(fd);
    fs.renameSync(this.state + '.new', this.state);
    const dir = fs.openSync(this.folder, 'r');
    fs.fsyncSync(dir);
    fs.closeSync(dir);
  }

  // Deletes everything: the chain starts over.
  clear() {
    fs.rmSync(this.state, { force: true });
    fs.ftruncateSync(this.log, 0);
    this.length = 0;
    this.pending = [];
    this.pendingLength = 0;
  }
}

module.exports = { Store };
