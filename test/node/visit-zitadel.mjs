// visit-zitadel.mjs URL: a person with a browser logs in at zitadel's example provider.
// Ends when the browser has left the provider; prints the text there.
import { chromium } from 'playwright-core';

const url = process.argv[2];
const home = new URL(url).origin;
const args = ['--no-sandbox', '--disable-gpu'];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args, timeout: 30000 });
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(20000);
  await page.goto(url);
  await page.fill('input[name=username]', 'test-user@localhost');
  await page.fill('input[name=password]', 'verysecure');
  await page.click('button[type=submit]');
  await page.waitForURL(at => at.pathname.endsWith('/callback') && at.port !== new URL(home).port);
  console.log(await page.innerText('body'));
} finally {
  await browser.close();
}
