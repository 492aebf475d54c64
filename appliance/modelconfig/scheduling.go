package modelconfig

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/edgewise-ai/edgewise"
)

// kindModel is the kind of an instance group whose model chooses its devices by itself.
const kindModel edgewise.InstanceKind = "KIND_MODEL"

// instances checks where and how often the model is to run.
func (c *checker) instances() {
	if len(c.m.InstanceGroup) == 0 && c.m.EnsembleScheduling == nil {
		c.problem("instance_group: want at least one")
	}
	seen := map[string]bool{}
	var total int64
	for i, g := range c.m.InstanceGroup {
		what := fmt.Sprintf("instance_group[%d]", i)
		total += max(int64(g.Count), 0)
		if g.Count < 1 {
			c.problem("%s: count: want 1 to %d, got %d", what, MaxInstances, g.Count)
		}
		if seen[g.Name] {
			c.problem("%s: the name %.64q is taken by another group", what, g.Name)
		}
		seen[g.Name] = true
		c.group(what, g)
	}
	if len(c.m.InstanceGroup) > 0 && !slices.ContainsFunc(c.m.InstanceGroup,
		func(g edgewise.InstanceGroup) bool { return !g.Passive }) {
		c.problem("instance_group: every group is passive, so no instance takes requests")
	}
	if latency(c.m) && total > 1 {
		c.problem("instance_group: %d instances over all groups: %s %q runs one at a time, leave count out or write 1", total,
			"execution_profile", "latency")
	}
	if total > MaxInstances {
		c.problem("instance_group: %d instances over all groups, at most %d are allowed", total, MaxInstances)
	}
}

func (c *checker) group(what string, g edgewise.InstanceGroup) {
	switch g.Kind {
	case edgewise.KindCPU:
		if len(g.GPUs) > 0 {
			c.problem("%s: gpus is set for a group of KIND_CPU", what)
		}
	case edgewise.KindAuto, edgewise.KindGPU, kindModel:
	default:
		c.problem("%s: kind: unknown name %.64q", what, g.Kind)
	}
	if g.RateLimiter != nil {
		c.rateLimiter(what+": rate_limiter", g.RateLimiter.Resources)
	}
}

func (c *checker) rateLimiter(what string, resources []edgewise.RateLimiterResource) {
	if n := len(resources); n > MaxResources {
		c.problem("%s: %d resources, at most %d are allowed", what, n, MaxResources)
	}
	for i, r := range resources {
		switch {
		case r.Name == "" || len(r.Name) > MaxTensorName:
			c.problem("%s: resources[%d]: name has %d bytes: want 1 to %d", what, i, len(r.Name), MaxTensorName)
		case slices.ContainsFunc(resources[:i], func(other edgewise.RateLimiterResource) bool {
			return other.Name == r.Name
		}):
			c.problem("%s: resource %s is listed twice", what, shown(r.Name))
		case r.Count > math.MaxInt32:
			c.problem("%s: resource %s: count: want at most %d, got %d", what, shown(r.Name), math.MaxInt32, r.Count)
		}
	}
}

// batching checks the scheduling choice and the queue.
func (c *checker) batching() {
	if n := schedulers(c.m); n > 1 {
		c.problem("want at most one of dynamic_batching, sequence_batching and ensemble_scheduling, got %d", n)
	}
	b := c.m.DynamicBatching
	if b == nil {
		return
	}
	c.preferred("dynamic_batching", b.PreferredBatchSize)
	c.queueTime("dynamic_batching: max_queue_delay_microseconds", b.MaxQueueDelay)
	for _, p := range queuePolicies(c.m) {
		c.queuePolicy(p)
	}
	c.priorities(b)
}

func (c *checker) preferred(what string, sizes []int32) {
	for _, size := range sizes {
		if size < 1 || size > c.m.MaxBatchSize {
			c.problem("%s: preferred_batch_size: want 1 to max_batch_size, which is %d, got %d", what, c.m.MaxBatchSize, size)
		}
	}
}

func (c *checker) priorities(b *edgewise.DynamicBatching) {
	if b.PriorityLevels > 0 && b.DefaultPriorityLevel == 0 || b.DefaultPriorityLevel > b.PriorityLevels {
		c.problem("dynamic_batching: default_priority_level: want 1 to priority_levels, which is %d, got %d",
			b.PriorityLevels, b.DefaultPriorityLevel)
	}
	if b.PreserveOrdering && b.PriorityLevels > 1 {
		c.problem("dynamic_batching: preserve_ordering excludes priority_levels above 1, got %d", b.PriorityLevels)
	}
	for _, level := range sorted(b.PriorityQueuePolicy) {
		n, err := strconv.ParseUint(level, 10, 64)
		if err != nil || n < 1 || n > b.PriorityLevels {
			c.problem("dynamic_batching: priority_queue_policy: want levels 1 to priority_levels, which is %d, got %.64q",
				b.PriorityLevels, level)
		}
	}
}

// namedPolicy is a queue policy and where it stands.
type namedPolicy struct {
	what string
	edgewise.QueuePolicy
}

func queuePolicies(m *edgewise.Model) []namedPolicy {
	b := m.DynamicBatching
	if b == nil {
		return nil
	}
	var policies []namedPolicy
	if b.DefaultQueuePolicy != nil {
		policies = append(policies, namedPolicy{"dynamic_batching: default_queue_policy", *b.DefaultQueuePolicy})
	}
	for _, level := range sorted(b.PriorityQueuePolicy) {
		policies = append(policies, namedPolicy{
			fmt.Sprintf("dynamic_batching: priority_queue_policy[%.64q]", level),
			b.PriorityQueuePolicy[level],
		})
	}
	return policies
}

func (c *checker) queuePolicy(p namedPolicy) {
	c.queueTime(p.what+": default_timeout_microseconds", p.DefaultTimeout)
	switch p.TimeoutAction {
	case timeoutReject:
	case timeoutDelay:
		if c.m.DynamicBatching.PreserveOrdering {
			c.problem("%s: timeout_action DELAY is excluded by preserve_ordering", p.what)
		}
	default:
		c.problem("%s: timeout_action: want REJECT or DELAY, got %.64q", p.what, p.TimeoutAction)
	}
}

func (c *checker) queueTime(what string, microseconds uint64) {
	if microseconds > MaxQueueTime {
		c.problem("%s: want at most %d, got %d", what, uint64(MaxQueueTime), microseconds)
	}
}

// Declared returns what in a declaration, as Read or Parse return it, says that requests may be merged into batches; ""
// when nothing does, so that the model batches only because the box found that it can.
func Declared(m *edgewise.Model) string {
	switch {
	case m.SequenceBatching != nil:
		return "the configuration has sequence_batching"
	case m.DynamicBatching != nil:
		return "the configuration has dynamic_batching"
	case m.MaxBatchSize > 0:
		return fmt.Sprintf("the configuration has max_batch_size %d", m.MaxBatchSize)
	}
	return ""
}

// Unshared says which tensor's first dimension has not the name that those of all others have in the model's file, so
// that it need not be the batch; "" when all have one name. Inputs that have a default stay as they are whatever the
// batch.
func Unshared(ins *edgewise.Inspection) string {
	name, of := "", ""
	for _, side := range []struct {
		what string
		list []edgewise.TensorInfo
	}{{"input", ins.Inputs}, {"output", ins.Outputs}} {
		for _, t := range side.list {
			label := fmt.Sprintf("%s %q", side.what, t.Name)
			switch {
			case t.Optional:
			case len(t.Dims) == 0 || t.Dims[0] == "":
				return fmt.Sprintf("the first dimension of %s has no name in the model file", label)
			case of == "":
				name, of = t.Dims[0], label
			case t.Dims[0] != name:
				return fmt.Sprintf("the first dimension of %s is named %q in the model file, and that of %s %q", label, t.Dims[0],
					of, name)
			}
		}
	}
	return ""
}
