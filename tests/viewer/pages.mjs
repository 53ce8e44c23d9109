// Pages as a person sees them: screenshots at two widths and in two colour schemes, a print, and a look at what only a
// browser knows: do texts overlap, is anything cut off, is anything loaded?
//
//     node tests/viewer/pages.mjs OUTPUT_FOLDER page.html picture.svg folder_of_them ...
//
// Speaks the DevTools protocol over a pipe: nothing to install but Chromium. Status 1, with a line for each finding,
// when something is wrong; one line and status 0 when there is no Chromium. CHROMIUM names another browser.
import {execFileSync, spawn} from 'node:child_process';
import {mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {basename, join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';

const browserName = () => {
    for (const name of [process.env.CHROMIUM, 'chromium', 'chromium-browser', 'google-chrome'].filter(Boolean)) {
        try {
            execFileSync(name, ['--version'], {stdio: 'ignore'});
            return name;
        } catch {
        }
    }
    return null;
};

class Browser {
    constructor(name) {
        this.folder = mkdtempSync(join(tmpdir(), 'headwise-pages-'));
        const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
            '--disable-background-networking', '--disable-component-update', '--disable-sync', '--hide-scrollbars',
            `--user-data-dir=${this.folder}`, '--remote-debugging-pipe'];
        this.process = spawn(name, flags, {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
        this.pending = new Map(), this.listeners = [], this.count = 0;
        let text = '';
        this.process.stdio[4].on('data', data => {
            const messages = (text += data).split('\0');
            text = messages.pop();
            for (const message of messages.map(m => JSON.parse(m))) {
                if (!message.id) this.listeners.forEach(listener => listener(message));
                else if (message.error) this.pending.get(message.id)[1](new Error(message.error.message));
                else this.pending.get(message.id)[0](message.result);
            }
        });
    }
    send(method, params = {}) {
        const id = ++this.count, sessionId = this.session;
        this.process.stdio[3].write(JSON.stringify({id, method, params, sessionId}) + '\0');
        return new Promise((...both) => this.pending.set(id, both));
    }
    event(name) {
        return new Promise(done => this.listeners.push(m => m.method === name && done(m.params)));
    }
    async open() {
        const {targetId} = await this.send('Target.createTarget', {url: 'about:blank'});
        this.session = (await this.send('Target.attachToTarget', {targetId, flatten: true})).sessionId;
        for (const domain of ['Page', 'Network', 'Runtime', 'Log']) await this.send(domain + '.enable');
    }
    async close() {
        const gone = new Promise(done => this.process.once('exit', done));
        this.session = undefined;
        this.send('Browser.close').catch(() => {});
        await gone;
        rmSync(this.folder, {recursive: true, force: true, maxRetries: 5});
    }
}

/// Runs in the page.
const look = () => {
    const found = [], doc = document.documentElement;
    if (doc.scrollWidth > innerWidth) found.push(`is ${doc.scrollWidth} pixels wide, ${innerWidth} were there`);
    for (const svg of document.querySelectorAll('svg')) {
        const frame = svg.getBoundingClientRect();
        if (frame.width === 0) continue;
        const texts = [...svg.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()]);
        const name = svg.getAttribute('aria-label');
        texts.forEach(([text, a], i) => {
            const inside = a.left >= frame.left - 1 && a.right <= frame.right + 1 && a.top >= frame.top - 1 &&
                a.bottom <= frame.bottom + 1;
            if (!inside) found.push(`${name}: "${text}" is cut off`);
            for (const [other, b] of texts.slice(i + 1)) {
                if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
                    found.push(`${name}: "${text}" and "${other}" overlap`);
            }
        });
    }
    for (const e of document.querySelectorAll('h1,h2,p,li,th,td,pre,figcaption,footer')) {
        const box = e.getBoundingClientRect(), text = e.textContent.slice(0, 40);
        if (box.width > 1 && box.right > innerWidth + 1) found.push(`"${text}" runs out of the page`);
    }
    return found;
};

const [folder, ...places] = process.argv.slice(2);
const pages = places.flatMap(place => statSync(place).isDirectory() ?
    readdirSync(place).sort().filter(name => /\.(html|svg)$/.test(name)).map(name => join(place, name)) : [place]);
if (!folder || pages.length === 0) {
    console.error('usage: node pages.mjs OUTPUT_FOLDER page.html ...');
    process.exit(2);
}
const name = browserName();
if (!name) {
    console.log('skipped: no Chromium was found to look at pages with');
    process.exit(0);
}
mkdirSync(folder, {recursive: true});
const browser = new Browser(name), findings = [];
await browser.open();
browser.listeners.push(({method, params}) => {
    if (method === 'Network.requestWillBeSent' && !/^(file|data):/.test(params.request.url))
        findings.push(`asks for ${params.request.url}`);
    if (method === 'Log.entryAdded') findings.push(`logs: ${params.entry.text}`);
});
for (const file of pages) {
    for (const width of [400, 1200]) {
        for (const scheme of ['light', 'dark']) {
            const before = findings.length, label = `${basename(file).replace(/\./g, '_')}_${width}_${scheme}`;
            const screen = {width, height: 800, deviceScaleFactor: 1, mobile: false};
            await browser.send('Emulation.setDeviceMetricsOverride', screen);
            const features = [{name: 'prefers-color-scheme', value: scheme}];
            await browser.send('Emulation.setEmulatedMedia', {features});
            const loaded = browser.event('Page.loadEventFired');
            await browser.send('Page.navigate', {url: pathToFileURL(resolve(file)).href});
            await loaded;
            const seen = await browser.send('Runtime.evaluate', {expression: `(${look})()`, returnByValue: true});
            findings.push(...(seen.result.value ?? ['could not be looked at']));
            const shot = await browser.send('Page.captureScreenshot', {captureBeyondViewport: true});
            writeFileSync(join(folder, label + '.png'), Buffer.from(shot.data, 'base64'));
            for (let i = before; i < findings.length; ++i) findings[i] = `${label}: ${findings[i]}`;
        }
    }
    const print = await browser.send('Page.printToPDF', {printBackground: true, preferCSSPageSize: true});
    writeFileSync(join(folder, basename(file).replace(/\./g, '_') + '.pdf'), Buffer.from(print.data, 'base64'));
}
await browser.close();
for (const finding of findings) console.log(finding);
console.log(`${pages.length} pages looked at, ${findings.length} findings`);
process.exit(findings.length ? 1 : 0);
