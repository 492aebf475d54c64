import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';
import { compress } from './build/compress.ts';
import { licences } from './build/licences.ts';
import { openapi, sources } from './build/sources.ts';

export default defineConfig({
  plugins: [svelte(), sources(), openapi(), licences(), compress()],
  base: '/',
  build: {
    outDir: 'dist',
    emptyOutDir: false, // dist/stub.html is committed; the rest is removed by build/compress.ts
    target: 'es2022',
    assetsInlineLimit: 0,
    cssCodeSplit: false, // one request for all styles, which are small
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 20_000,
    reportCompressedSize: false,
  },
  worker: {
    format: 'es',
    plugins: () => [sources()],
    rollupOptions: {
      output: {
        entryFileNames: 'assets/sandbox/[name]-[hash].js',
        chunkFileNames: 'assets/sandbox/[name]-[hash].js',
      },
    },
  },
  server: { proxy: { '/api': { target: 'http://127.0.0.1:8000' }, '/v2': { target: 'http://127.0.0.1:8000' } } },
  test: { include: ['src/**/*.test.ts'], environment: 'node' },
});
