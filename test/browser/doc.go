// Package browser holds the page against the built program in a real browser. The scenarios themselves are in
// webui/test: here they are run, three at a time at most, so that "make test" is complete. docs/guides/page.md lists what
// each of them shows.
package browser
