// node run.mjs NAME: runs one scenario; NAME.long is one of those that take long, NAME.registry one that needs a registry.
const name = process.argv[2];
const began = Date.now();
try {
  await (await import(/\.(long|registry)$/.test(name) ? `./${name}.mjs` : `./${name}.scenario.mjs`)).default();
  console.log(`${name}: good after ${((Date.now() - began) / 1000).toFixed(1)} s`);
} catch (failure) {
  console.error(failure);
  process.exitCode = 1;
}
process.exit();
