package runner

import (
	"testing"
)

// BenchmarkCrossing is a run of almost no work in a child and back, one after the other.
func BenchmarkCrossing(b *testing.B) {
	i := load(b, setUp(fakeOptions{}), b.TempDir())
	data, free, err := i.Alloc(256)
	if err != nil {
		b.Fatal(err)
	}
	defer free()
	in := floats("a", 64)
	in.Data = append(data[:0], in.Data...)
	b.ReportAllocs()
	for b.Loop() {
		if err := echo(i, in); err != nil {
			b.Fatal(err)
		}
	}
}
