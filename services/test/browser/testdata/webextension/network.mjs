// A proxy between the extension and the service, which can cut the connection.
import http from 'node:http';

export class Network {
  // 'up'; 'down': no connection gets through; 'deaf': requests arrive, but answers to writes are lost;
  // 'stranger': another program takes the writes; 'forbidden': a gateway refuses them.
  state = 'up';
  writes = []; // the Idempotency-Key of each write that reached the service
  beforeAnswer = async () => {}; // what the answer to a write by a link waits for

  constructor(api) {
    const { hostname, port } = new URL(api);
    this.server = http.createServer((request, response) => {
      if (this.state === 'down') return request.socket.destroy();
      const write = request.method === 'POST' && request.url === '/memories';
      if (write) this.writes.push(request.headers['idempotency-key']);
      if (write && this.state === 'stranger') return response.writeHead(200, { 'Access-Control-Allow-Origin': '*' }).end('{}');
      if (write && this.state === 'forbidden') return response.writeHead(403, { 'Access-Control-Allow-Origin': '*' }).end();
      const lost = write && this.state === 'deaf';
      const { method, url: path, headers } = request;
      request.pipe(http.request({ hostname, port, method, path, headers }, async (answer) => {
        if (path.startsWith('/memory-drops/')) await this.beforeAnswer();
        if (lost) return answer.resume().on('end', () => request.socket.destroy());
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      }));
    });
  }

  async listen() {
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
  }
}
