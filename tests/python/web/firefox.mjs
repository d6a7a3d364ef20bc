// Every view in Firefox: node firefox.mjs MODULES FIREFOX URL VIEW...
// Prints for each view what it shows, and the page's errors.

import { createRequire } from "node:module";

const [modules, firefox, url, ...views] = process.argv.slice(2);
const puppeteer = createRequire(`${modules}/`)("puppeteer-core");
const browser = await puppeteer.launch({ browser: "firefox", executablePath: firefox, headless: true });
const found = { faults: [], views: {} };
try {
  const page = await browser.newPage();
  page.on("pageerror", (error) => found.faults.push(String(error)));
  page.on("console", (message) => message.type() === "error" && found.faults.push(message.text()));
  await page.setViewport({ width: 1280, height: 720 });
  await page.goto(url);
  for (const view of views) {
    await page.evaluate((name) => (location.hash = `v=${name}&tiles=0&step=3`), view);
    await page.waitForSelector(`main[data-view='${view}'][data-drawn]:not([data-drawn=''])`, { timeout: 120_000 });
    found.views[view] = await page.evaluate(() => ({
      alerts: [...document.querySelectorAll("main [role=alert]")].map((one) => one.textContent),
      tables: [...document.querySelectorAll("main table[id]")].map((one) => one.id),
      wider: document.documentElement.scrollWidth - innerWidth,
      cycles: document.querySelector("[data-key=cycles]")?.dataset.value,
    }));
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
