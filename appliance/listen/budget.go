package listen

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/edgewise-ai/edgewise/host"
)

// Budget bounds the connections of all listeners of a process by the files that it may open: half of them, so that the
// other half is left for models, uploads and the store. A nil Budget has no bound.
type Budget struct {
	files uint64 // that the process may open
	max   int64
	open  atomic.Int64
}

// NewBudget reads the limit of the process.
func NewBudget() *Budget { return newBudget(host.OpenFiles()) }

func newBudget(files uint64) *Budget {
	return &Budget{files: files, max: int64(min(files/2, math.MaxInt64))}
}

// Short returns what to log when the budget is less than the connections that are configured, or "".
func (b *Budget) Short(configured int) string {
	if int64(configured) <= b.max {
		return ""
	}
	return fmt.Sprintf("%d connections are allowed by the configuration, and %d are taken: half of the %d files that "+
		"the process may open (ulimit -n, LimitNOFILE=)", configured, b.max, b.files)
}

// take counts a connection and tells whether there is room for it.
func (b *Budget) take() bool {
	if b == nil {
		return true
	}
	if b.open.Add(1) > b.max {
		b.open.Add(-1)
		return false
	}
	return true
}

func (b *Budget) give() {
	if b != nil {
		b.open.Add(-1)
	}
}
