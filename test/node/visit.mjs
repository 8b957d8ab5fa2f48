// A person with a browser: visit.mjs URL [CODE] logs in at an OAuth provider and
// agrees to what it asks, with the Chromium that $CHROMIUM names. Ends when the
// browser has left the provider, or has nothing more to submit; prints the text there.
import { chromium } from 'playwright-core';

const [url, code] = process.argv.slice(2);
const home = new URL(url).origin;
// The provider's pages want fonts from afar.
const args = ['--no-sandbox', '--disable-gpu', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args, timeout: 30000 });
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(20000);
  await page.goto(url);
  for (let step = 0; step < 10; step++) {
    await page.waitForLoadState('load');
    const button = page.locator('button[type=submit]:not([name=abort])').first();
    if (new URL(page.url()).origin !== home || await button.count() === 0) break;
    for (const [name, value] of [['login', 'ada'], ['password', 'of no worth'], ['user_code', code]]) {
      const field = page.locator(`input[name=${name}]:not([type=hidden])`);
      if (value && await field.count()) await field.fill(value);
    }
    await Promise.all([page.waitForNavigation({ waitUntil: 'load' }), button.click()]);
  }
  console.log(await page.innerText('body'));
} finally {
  await browser.close();
}
