// Package webui is the page that people use the box with: its source in TypeScript and Svelte, its build, and the files that
// the program carries. Nothing of it asks another host for anything.
package webui
