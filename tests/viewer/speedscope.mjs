// node speedscope.mjs MODULES TRACE PICTURE CHROMIUM: opens the trace in speedscope, as a user would, and fails unless
// the viewer shows every thread of it. MODULES is the folder where npm has put speedscope and playwright-core.
import {createServer} from 'node:http';
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {extname, join, normalize} from 'node:path';

const [modules, trace, picture, chromium] = process.argv.slice(2);
const {chromium: browserType} = createRequire(join(modules, 'x.js'))('playwright-core');
const release = join(modules, 'node_modules/speedscope/dist/release');

const types = {'.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm'};
const server = createServer((request, response) => {
    try {
        const path = normalize(new URL(request.url, 'http://x').pathname);
        const body = readFileSync(join(release, path === '/' ? 'index.html' : path));
        response.setHeader('content-type', types[extname(path) || '.html'] ?? 'application/octet-stream');
        response.end(body);
    } catch {
        response.statusCode = 404;
        response.end();
    }
});
await new Promise(ready => server.listen(0, '127.0.0.1', ready));

const expected = JSON.parse(readFileSync(trace, 'utf8'))
    .traceEvents.filter(e => e.name === 'thread_name').map(e => e.args.name);
const browser = await browserType.launch({
    executablePath: chromium,
    args: ['--headless', '--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking',
           '--disable-component-update', '--disable-sync', '--enable-unsafe-swiftshader'],
});
let failure = '';
try {
    const page = await browser.newPage({viewport: {width: 1200, height: 600}});
    page.on('pageerror', error => failure ||= `the viewer fails: ${error.message}`);
    page.on('dialog', dialog => { failure ||= `the viewer says: ${dialog.message()}`; dialog.dismiss(); });
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.locator('input[type=file]').first().setInputFiles(trace);
    const shown = () => page.evaluate(() => document.body.innerText);
    for (const name of expected) {
        const deadline = Date.now() + 15000;
        while (!failure && !(await shown()).includes(name)) {
            if (Date.now() > deadline) failure = `the viewer shows no '${name}', but: ${(await shown()).slice(0, 300)}`;
            await page.waitForTimeout(50);
        }
        await page.waitForTimeout(500);
        if (name === expected[0]) await page.screenshot({path: picture});
        await page.keyboard.press('n');  // the next thread
    }
} finally {
    await browser.close();
    server.close();
}
if (failure) {
    console.error(failure);
    process.exit(1);
}
console.log(`speedscope shows ${expected.length} threads: ${expected.join(', ')}`);
