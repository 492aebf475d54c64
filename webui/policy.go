package webui

// policy is the Content-Security-Policy of the page: scripts, styles and requests come from the box alone, nothing is
// evaluated, and a text becomes HTML or a script's address only through the policies that are named here. Svelte makes the
// first for its own templates; the page's source makes the second for the address of its worker.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; " +
	"media-src 'self' blob:; font-src 'self'; " +
	"connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types svelte-trusted-html edgewise-worker"

// workerPolicy is that of the scripts of the worker that compiles and runs steps: the only place where WebAssembly may be
// made of bytes. It reaches nothing but its own scripts.
const workerPolicy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
