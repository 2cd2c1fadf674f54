// Origin of make test-origin on Node: files of a folder by GET and HEAD, with ranges and conditions, PUT, and
// a field of the request as field and content. Arguments: folder, certificate, key. Prints a port each for HTTP/1.1, for
// HTTP/2 by prior knowledge, and for either over TLS.
import { createReadStream, createWriteStream, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { createSecureServer, createServer as createHttp2Server } from 'node:http2';
import { readFileSync } from 'node:fs';
import { pipeline } from 'node:stream';

const [folder, cert, key] = process.argv.slice(2);

function serve(request, response) {
    const { pathname } = new URL(request.url, 'http://localhost');
    if (pathname === '/app/large-field') {
        const value = request.headers['x-large'];
        response.setHeader('x-large', value);
        return response.end(value);
    }
    const file = folder + pathname;
    if (request.method === 'PUT') {
        const stored = createWriteStream(file);
        return pipeline(request, stored, (error) => {
            response.statusCode = error ? 500 : 201;
            response.end();
        });
    }
    serveFile(file, request, response);
}

function serveFile(file, request, response) {
    const { size, mtime } = statSync(file);
    response.setHeader('last-modified', mtime.toUTCString());
    if (request.headers['if-modified-since'] === mtime.toUTCString()) {
        response.statusCode = 304;
        return response.end();
    }
    let [start, end] = [0, size - 1];
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
    if (range) {
        [start, end] = range.slice(1).map(Number);
        response.statusCode = 206;
        response.setHeader('content-range', `bytes ${start}-${end}/${size}`);
    }
    response.setHeader('content-length', end - start + 1);
    if (request.method === 'HEAD') {
        return response.end();
    }
    pipeline(createReadStream(file, { start, end }), response, () => {});
}

const tls = { cert: readFileSync(cert), key: readFileSync(key), allowHTTP1: true };
const servers = [createServer(serve), createHttp2Server(serve), createSecureServer(tls, serve)];
for (const server of servers) {
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
}
console.log(servers.map((server) => server.address().port).join(' '));
