import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';
import { compress } from './build/compress.ts';
import { gallery } from './build/gallery.ts';
import { licences } from './build/licences.ts';
import { sections } from './build/sections.ts';
import { openapi, sources } from './build/sources.ts';

export default defineConfig({
  plugins: [sections(), svelte(), sources(), openapi(), gallery(), licences(), compress()],
  base: '/',
  build: {
    outDir: 'dist',
    emptyOutDir: false, // dist/stub.html is committed; the rest is removed by build/compress.ts
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 20_000,
    reportCompressedSize: false,
    rolldownOptions: {
      output: {
        // What the login needs, and what every page behind it needs: two files instead of twenty. The styles of both are one
        // file: the texts of a language take the request that this saves.
        codeSplitting: {
          groups: [
            { name: 'core', priority: 2, test: /node_modules\/(svelte|esm-env|clsx|devalue)\/|rolldown|vite\/|src\/(main|App|styles)|src\/messages\/en\/core.ts$|src\/lib\/(router|match|api|order|session|theme|toast|language|plural|rich)|src\/ui\/(Problem|Copy|Logo|Dialog|Challenge|Language|Rich)|src\/(Shell|pages\/(Home|Login)|ui\/(Changes|Device|Differences|DropZone|Empty|GoLive|Header|Menu|Sparkline|Status|Toaster))\.svelte\?svelte&type=style|lucide\/svelte\/dist\/(Icon|icons\/(x|check|copy|circle-alert)|context|defaultAttributes|utils|aliases)\b/ },
            { name: 'shell', priority: 1, test: /src\/(Shell|routes|pages\/Home)|src\/lib\/(pages|box|live|format|keys|uploads|drop|tar)\b|src\/ui\/(Changes|Device|Differences|DropZone|Empty|GoLive|Header|Menu|Sparkline|Status|Time|Toaster)|lucide/ },
          ],
        },
      },
    },
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
  test: { include: ['src/**/*.test.ts'], setupFiles: ['src/lib/words.setup.ts'], environment: 'node', testTimeout: 60_000 },
});
