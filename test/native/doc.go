// Package native tests the backends of native code: the header of backends/cpp, and backends/llama.
package native
