// node run.mjs NAME: runs one scenario; NAME.long is one of those that take long.
const name = process.argv[2];
const began = Date.now();
try {
  await (await import(name.endsWith('.long') ? `./${name}.mjs` : `./${name}.scenario.mjs`)).default();
  console.log(`${name}: good after ${((Date.now() - began) / 1000).toFixed(1)} s`);
} catch (failure) {
  console.error(failure);
  process.exitCode = 1;
}
process.exit();
