package tune

import (
	"testing"
	"time"
)

func TestTheFirstLoadIsPartOfTheLimit(t *testing.T) {
	for _, test := range []struct{ limit, loaded, searching, curves time.Duration }{
		{300 * time.Second, 0, 264 * time.Second, 36 * time.Second},
		{300 * time.Second, 50 * time.Second, 220 * time.Second, 30 * time.Second},
		{60 * time.Second, 30 * time.Second, 26400 * time.Millisecond, 3600 * time.Millisecond},
		{60 * time.Second, 2 * time.Minute, 26400 * time.Millisecond, 3600 * time.Millisecond},
	} {
		if searching, curves := shares(test.limit, test.loaded); searching != test.searching || curves != test.curves {
			t.Errorf("of %v, of which the load took %v: %v and %v", test.limit, test.loaded, searching, curves)
		}
	}
}
