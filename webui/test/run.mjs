// node run.mjs NAME: runs one scenario.
const name = process.argv[2];
const began = Date.now();
try {
  await (await import(`./${name}.scenario.mjs`)).default();
  console.log(`${name}: good after ${((Date.now() - began) / 1000).toFixed(1)} s`);
} catch (failure) {
  console.error(failure);
  process.exitCode = 1;
}
process.exit();
