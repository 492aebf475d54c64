package serving

import (
	"bytes"
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/api/admin"
	"github.com/edgewise-ai/edgewise/appliance/measure"
	"github.com/edgewise-ai/edgewise/appliance/sched"
	"github.com/edgewise-ai/edgewise/appliance/sched/cores"
	"github.com/edgewise-ai/edgewise/appliance/sched/sequence"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
	"github.com/edgewise-ai/edgewise/appliance/warmup"
)

// candidate is a version that is loaded on one kind of device to be measured there.
type candidate struct {
	load     *load
	instance edgewise.Instance
	names    []string // of all outputs
	account  *cores.Account
	solo     bool
}

// newCandidate makes a candidate of an instance. Its runs take cores as those of a request do that has the machine to
// itself, and give them back after each.
func newCandidate(l *load, instance edgewise.Instance) *candidate {
	return &candidate{
		load: l, instance: instance, names: instanceModel(l.version.Model).names(), solo: l.place.solo > 0,
		account: l.place.cores.Open(l.version.ID, max(l.place.threads, l.place.solo)),
	}
}

// plain is a model as its instance sees it.
type plain struct{ *edgewise.Model }

func instanceModel(m *edgewise.Model) plain {
	if m.SequenceBatching != nil {
		m = sequence.PlainModel(m)
	}
	return plain{m}
}

func (p plain) names() (list []string) {
	for _, out := range p.Outputs() {
		list = append(list, out.Name)
	}
	return list
}

// Run runs the instance once.
func (c *candidate) Run(
	ctx context.Context, in []edgewise.Tensor,
) (out []edgewise.Tensor, took time.Duration, free func(), err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = edgewise.Errorf("serving.measure", edgewise.Internal, "the instance panicked: %v", cause)
		}
	}()
	lease := c.account.Lease()
	if !lease.Try() {
		lease.Wait()
	}
	defer lease.Release()
	began := time.Now()
	result, err := c.instance.Run(ctx, in, c.names, edgewise.RunOptions{Solo: c.solo, Trial: true})
	took = time.Since(began)
	if err != nil {
		return nil, took, nil, err
	}
	return result.Outputs, took, result.Free, nil
}

// Close unloads it.
func (c *candidate) Close() error {
	return closeAll(nil, []edgewise.Instance{c.instance}, c.load.onClose)
}

// Bounds of the requests that candidates are measured with.
const (
	sampleBytes = 32 << 20               // of the inputs of one
	sampleTime  = 500 * time.Millisecond // of a batch on the CPU: a larger one has fewer rows
	sampleRows  = 64
	maxGoldens  = 4
)

// sampleSizes are tried in turn for dimensions of variable size, until the model takes one.
var sampleSizes = []int64{32, 8, 1}

// sampler makes the requests that a version is measured with: goldens of its model, or tensors of its signature, or
// those of its warm-up.
type sampler struct {
	*load
	model   plain
	checker *sched.Checker
	goldens [][]edgewise.Tensor // as the instance sees them
	rules   []admin.CompareRule
}

// read gets the goldens of the version's model.
func (s *sampler) read() error {
	s.model = instanceModel(s.version.Model)
	s.checker = sched.NewChecker(s.model.Model)
	if s.config.Trial.Goldens == nil || s.version.Model.SequenceBatching != nil {
		return nil
	}
	requests, rules, err := s.config.Trial.Goldens(s.version.ID.Name)
	s.rules, s.goldens = rules, s.suitable(requests)
	return err
}

// suitable returns the inputs of those requests that suit the version's signature, within the bounds.
func (s *sampler) suitable(requests []*edgewise.Request) (list [][]edgewise.Tensor) {
	left := sampleBytes
	for _, r := range requests {
		inputs, refused := s.checker.Inputs(r)
		if left -= bytesOf(inputs); refused == nil && left >= 0 && len(list) < maxGoldens {
			list = append(list, inputs)
		}
	}
	return list
}

// samples makes the requests and finds out on the CPU what the model takes.
func (s *sampler) samples(ctx context.Context, cpu measure.Subject) ([]measure.Sample, string, error) {
	if len(s.goldens) > 0 {
		list, err := s.given(ctx, cpu, s.goldens)
		return list, admin.FromGoldens, err
	}
	list, refused := s.generated(ctx, cpu)
	if refused == nil {
		return list, admin.FromSignature, nil
	}
	requests, err := warmup.Samples(s.version.Model, s.dir)
	if err != nil {
		return nil, "", err
	}
	if declared := s.suitable(requests); len(declared) > 0 {
		list, err = s.given(ctx, cpu, declared)
		return list, admin.FromWarmup, err
	}
	return nil, "", refused
}

// given makes samples of requests, and one of many rows of the first.
func (s *sampler) given(
	ctx context.Context, cpu measure.Subject, requests [][]edgewise.Tensor,
) ([]measure.Sample, error) {
	var list []measure.Sample
	for i, inputs := range requests {
		list = append(list, measure.Sample{Rows: s.rowsOf(inputs), Timed: i == 0, Inputs: inputs})
	}
	took, err := clock(ctx, cpu, requests[0])
	if err != nil {
		return nil, err
	}
	first := list[0]
	if times := s.batch(bytesOf(first.Inputs), took, first.Rows) / max(first.Rows, 1); times > 1 {
		list = append(list, measure.Sample{Rows: times * first.Rows, Timed: true, Inputs: repeated(first.Inputs, times)})
	}
	return list, nil
}

func (s *sampler) rowsOf(inputs []edgewise.Tensor) int {
	if s.model.MaxBatchSize == 0 || len(inputs) == 0 || len(inputs[0].Shape) == 0 {
		return 1
	}
	return int(inputs[0].Shape[0])
}

// repeated repeats the rows of tensors.
func repeated(inputs []edgewise.Tensor, times int) []edgewise.Tensor {
	list := slices.Clone(inputs)
	for i := range list {
		list[i].Shape = slices.Clone(list[i].Shape)
		list[i].Shape[0] *= int64(times)
		list[i].Data = bytes.Repeat(list[i].Data, times)
	}
	return list
}

// generated makes random tensors of the model's signature.
func (s *sampler) generated(ctx context.Context, cpu measure.Subject) ([]measure.Sample, error) {
	random := rand.New(rand.NewPCG(1, 2))
	tensors := func(rows int, open int64, within trial.Range) ([]edgewise.Tensor, error) {
		return s.checker.Trial(trial.Size{Rows: int64(rows), Open: open, Bytes: sampleBytes}, trial.Random(random, within))
	}
	within := trial.Range{Low: -1, High: 1, Integers: 2}
	var failed error
	for _, open := range sampleSizes {
		one, err := tensors(1, open, within)
		if err != nil {
			return nil, err
		}
		if _, err = clock(ctx, cpu, one); err != nil {
			failed = err
			continue
		}
		took, err := clock(ctx, cpu, one) // the first run of a shape may take longer
		if err != nil {
			return nil, err
		}
		list := []measure.Sample{{Rows: 1, Timed: true, Inputs: one}}
		if rows := s.batch(bytesOf(one), took, 1); rows > 1 {
			if many, err := tensors(rows, open, within); err == nil {
				list = append(list, measure.Sample{Rows: rows, Timed: true, Inputs: many})
			}
		}
		if more, err := tensors(1, open, trial.Range{High: 1, Integers: 10}); err == nil {
			if _, err := clock(ctx, cpu, more); err == nil {
				list = append(list, measure.Sample{Rows: 1, Inputs: more})
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("the model takes no random inputs: %w", failed)
}

// batch is how many rows a batch has that is measured: as many as the model takes, a power of two where time or memory
// allow fewer, since those sizes are computed on a GPU as they are.
func (s *sampler) batch(size int, took time.Duration, rows int) int {
	most := int(s.version.Model.MaxBatchSize)
	allowed := min(sampleRows, sampleBytes/max(size/rows, 1), int(sampleTime/max(took/time.Duration(rows), 1)))
	if allowed >= most {
		return most
	}
	return 1 << (bits.Len(uint(max(allowed, 1))) - 1)
}

func clock(ctx context.Context, s measure.Subject, in []edgewise.Tensor) (time.Duration, error) {
	_, took, free, err := s.Run(ctx, in)
	if err != nil {
		return 0, err
	}
	free()
	return took, nil
}

func bytesOf(tensors []edgewise.Tensor) (n int) {
	for i := range tensors {
		n += len(tensors[i].Data)
	}
	return n
}
