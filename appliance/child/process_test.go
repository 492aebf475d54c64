package child

import (
	"os"
	"strings"
	"testing"
)

func TestALineOfAChildIsCut(t *testing.T) {
	output, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		forward(output, func(line []byte) { lines = append(lines, string(line)) })
	}()
	for range 50 {
		if _, err := input.WriteString(strings.Repeat("x", 3*MaxLine) + "\n\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	<-done
	if len(lines) != 50 || len(lines[0]) != MaxLine || len(lines[49]) != MaxLine {
		t.Errorf("%d lines, the first one of %d bytes", len(lines), len(lines[0]))
	}
}
