// Every page, in both colours, on the smallest phone and with text of twice the size: nothing that the policy refuses, nothing that
// axe finds, nothing that leaves the page to the side. PICTURES=FOLDER keeps a picture of each.
import { join } from 'node:path';
import { judge, painted, until } from './harness.mjs';

const phone = { width: 320, height: 640 };
const desk = { width: 1280, height: 860 };

/** Goes round some pages, given as address and heading, and returns what is wrong with them. */
export async function round(visitor, pages) {
  const { page } = visitor;
  const problems = [];
  for (const [path, heading] of pages) {
    const picture = (name) => process.env.PICTURES && page.screenshot({ path: join(process.env.PICTURES, `${name}${path.replaceAll('/', '_').replace(/\?.*/, '')}.png`) });
    await page.emulateMedia({ colorScheme: 'light' });
    await visitor.open(path, heading);
    await settled(page);
    await painted(page);
    await picture('light');
    problems.push(...(await judge(page, path)));
    await page.emulateMedia({ colorScheme: 'dark' });
    await painted(page);
    await picture('dark');
    problems.push(...(await judge(page, path + ' dark')));
    await page.setViewportSize(phone);
    await painted(page);
    await picture('phone');
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) problems.push(`${path} scrolls sideways by ${wide} px at 320 px`);
    await page.setViewportSize(desk);
    problems.push(...(await doubled(page, path, picture)));
  }
  return problems;
}

/** Text of twice the size: nothing leaves the page to the side, and no button loses its words. */
async function doubled(page, path, picture) {
  const session = await page.context().newCDPSession(page);
  await session.send('Page.setFontSizes', { fontSizes: { standard: 32, fixed: 26 } });
  await painted(page);
  const found = await page.evaluate(() => {
    const wide = document.documentElement.scrollWidth - innerWidth;
    const out = [...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth + 1).map((e) => `${e.localName}.${e.className} “${e.textContent.trim().slice(0, 40)}” ${Math.round(e.getBoundingClientRect().right)}`).slice(-8);
    const cut = [...document.querySelectorAll('main button, main a.button, main h1, main h2')].filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 2 && getComputedStyle(e).overflowX !== 'visible').map((e) => e.textContent.trim().slice(0, 40));
    return { wide, cut, out };
  });
  await picture('large');
  await session.send('Page.setFontSizes', { fontSizes: { standard: 16, fixed: 13 } });
  await session.detach();
  return [...(found.wide > 0 ? [`${path} scrolls sideways by ${found.wide} px with text of 200 %: ${found.out.join('; ')}`] : []), ...found.cut.map((text) => `${path} cuts “${text}” with text of 200 %`)];
}

async function settled(page) {
  await until('skeletons to go', async () => (await page.locator('main .skeleton').count()) === 0).catch(() => { throw new Error(`${page.url()} keeps its skeletons`); });
}
