import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

/** Styles are emitted as files: the page's policy allows no other. */
export default { preprocess: vitePreprocess(), compilerOptions: { runes: true } };
