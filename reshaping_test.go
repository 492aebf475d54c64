package edgewise

import "testing"

func TestReshapeCarriesVariableSizesOver(t *testing.T) {
	tests := []struct {
		name              string
		batched           bool
		from, to, in, out Shape
	}{
		{"batch alone becomes a vector", true, Shape{1}, Shape{}, Shape{5, 1}, Shape{5}},
		{"fixed", false, Shape{4, 2}, Shape{8}, Shape{4, 2}, Shape{8}},
		{"variable in order", true, Shape{-1, 3, -1}, Shape{-1, -1, 3}, Shape{2, 7, 3, 9}, Shape{2, 7, 9, 3}},
		{"what does not fit stays", false, Shape{4, 2}, Shape{8}, Shape{4, 3}, Shape{4, 3}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := &Model{}
			if test.batched {
				m.MaxBatchSize = 8
			}
			r := m.Reshaping(test.from, &Reshape{Shape: test.to})
			if got := r.Apply(test.in); !got.Equal(test.out) {
				t.Errorf("got %v, want %v", got, test.out)
			}
			if got := r.Inverse().Apply(test.out); !got.Equal(test.in) {
				t.Errorf("back: got %v, want %v", got, test.in)
			}
		})
	}
}
