package sched

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/edgewise-ai/edgewise"
	"github.com/edgewise-ai/edgewise/appliance/sched/trial"
)

// Proof says what is known, before a version has run, of whether the rows of its batches depend on each other. Requests
// are merged only where they do not. A nil Proof is the word of the model's configuration that they do not.
type Proof struct {
	Declared string // what in the configuration says so; empty: a trial at load has to find it
	Refuted  string // why they may depend on each other whatever a trial finds; empty: no reason is known
}

const (
	proofTime     = 100 * time.Millisecond // a proof that has had a round of each sample begins no new one after this
	proofSlow     = 2 * time.Second        // and one that has had any, after this
	proofTimeout  = 10 * time.Second       // and is given up after this
	proofBytes    = 64 << 20               // of an input of its largest batch, at most; larger ones are not tried
	proofPasses   = 32                     // over the samples, while there is time
	proofParts    = 3                      // requests whose rows are merged
	proofRows     = 6                      // of them together, at most
	proofPartRuns = 3 * proofRows          // rows that a round runs
)

// samples are the rounds of a proof. Integers are small first: many are indexes, lengths or masks.
var samples = [...]trial.Range{
	{Low: -1, High: 1, Integers: 2},
	{High: 1, Integers: 10},
	{Low: -1, High: 1, Integers: 30},
	{High: 1, Integers: 100},
}

// The numbers of a request are a sample's times a power of ten between these exponents: a model that rounds, or
// saturates, may hide for all others that its rows depend on each other.
const leastPower, mostPower = -1, 2.5

// openSizes are tried in turn for dimensions of variable size, until the model takes one.
var openSizes = [...]int64{8, 32, 224}

// prove finds out whether the outputs of a batch are those of its rows: random requests of several sizes run one by
// one, and merged in two orders. It returns why they may not be merged, "" when they may. A model that takes none of
// the random inputs, or answers the same whatever they are, is not proven: its author has to declare what cannot be
// seen.
func (s *Scheduler) prove(ctx context.Context) (refuted string) {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	p := &proof{s: s, varied: map[string]bool{}, random: rand.New(rand.NewPCG(1, 2))}
	if refuted = p.begin(ctx); refuted != "" {
		return refuted
	}
	start, agreed := time.Now(), 0
	looks := samples[:]
	for range proofPasses {
		var accepted []trial.Range
		for _, look := range looks {
			took := time.Since(start)
			if (agreed >= len(samples) && took > proofTime || agreed > 0 && took > proofSlow) && p.constant() == "" {
				return ""
			}
			refuted, err := p.round(ctx, look)
			switch {
			case refuted != "":
				return refuted
			case ctx.Err() != nil:
				return fmt.Sprintf("the trial took longer than %v", proofTimeout)
			case err == nil:
				agreed, accepted = agreed+1, append(accepted, look)
			}
			p.failure = firstError(p.failure, err)
		}
		looks = accepted
	}
	switch constant := p.constant(); {
	case agreed == 0:
		return fmt.Sprintf("the model takes no random inputs: %v", p.failure)
	case constant != "":
		return fmt.Sprintf("output %q was the same for all random rows, which proves nothing", constant)
	}
	return ""
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// proof is one that is being made.
type proof struct {
	s       *Scheduler
	open    int64 // size of dimensions of variable size
	random  *rand.Rand
	varied  map[string]bool // outputs that were not the same for all rows
	failure error           // the first one of a round
}

// begin finds a size for variable dimensions and looks whether there is time for a round.
func (p *proof) begin(ctx context.Context) (refuted string) {
	var failure error
	for _, p.open = range openSizes {
		inputs, err := p.inputs(1, samples[0])
		if err != nil {
			return fmt.Sprintf("no trial can be made: %v", err)
		}
		start := time.Now()
		first, cancel := context.WithTimeout(ctx, trialTimeout)
		_, err = p.s.sampled(first, inputs)
		late := first.Err() != nil
		cancel()
		switch took := time.Since(start); {
		case late || took > proofTimeout/proofPartRuns:
			return fmt.Sprintf(
				"a run of one row took %v, and a trial of several %v at most", took.Round(time.Millisecond),
				proofTimeout,
			)
		case err == nil || !p.opens():
			return ""
		}
		failure = firstError(failure, err)
	}
	return fmt.Sprintf("the model takes no random inputs: %v", failure)
}

// opens tells whether an input has a dimension of variable size beside the batch.
func (p *proof) opens() bool {
	return slices.ContainsFunc(p.s.version.Model.Inputs(), func(spec edgewise.Spec) bool {
		return !spec.Optional && slices.Contains(spec.Shape[1:], -1)
	})
}

// parts are the rows of the requests of a round, which fit into a batch: 1, 2 and 3 where there is room for them.
func (p *proof) parts() []int {
	left, list := p.s.queue.batcher.most, []int(nil)
	for rows := 1; rows <= proofParts && left > 0; rows++ {
		list = append(list, min(rows, left))
		left -= min(rows, left)
	}
	return list
}

// round runs requests one by one and together, and compares. The error is that of a run, which says nothing about rows.
func (p *proof) round(ctx context.Context, look trial.Range) (refuted string, err error) {
	var requests, alone [][]edgewise.Tensor
	for _, rows := range p.parts() {
		inputs, err := p.inputs(rows, look)
		if err != nil {
			return "", err
		}
		outputs, err := p.s.sampled(ctx, inputs)
		if err != nil {
			return "", err
		}
		requests, alone = append(requests, inputs), append(alone, outputs)
	}
	for range 2 { // in order, and the other way round
		together, err := p.s.sampled(ctx, joined(requests))
		if err != nil {
			return "", err
		}
		for i := range together {
			if err := p.compare(&together[i], alone, i, requests); err != nil {
				return err.Error(), nil
			}
		}
		slices.Reverse(requests)
		slices.Reverse(alone)
	}
	return "", nil
}

// compare holds output i of a batch against those of its parts.
func (p *proof) compare(whole *edgewise.Tensor, parts [][]edgewise.Tensor, i int, requests [][]edgewise.Tensor) error {
	total := int64(0)
	for _, inputs := range requests {
		total += inputs[0].Shape[0]
	}
	if len(whole.Shape) == 0 || whole.Shape[0] != total {
		return fmt.Errorf(
			"output %q of a batch of %d has shape %v: dimension 0 is not the batch", whole.Name, total, whole.Shape,
		)
	}
	rest, err := newRows(whole, int(total))
	if err != nil {
		return err
	}
	scale := trial.Magnitude(whole)
	for n, inputs := range requests {
		rows, part := inputs[0].Shape[0], &parts[n][i]
		data, err := rest.cut(rows)
		switch {
		case err != nil:
			return err
		case len(part.Shape) == 0 || part.Shape[0] != rows || !part.Shape[1:].Equal(whole.Shape[1:]):
			return fmt.Errorf(
				"output %q has shape %v for %d rows, and %v in a batch of %d", whole.Name, part.Shape, rows,
				whole.Shape, total,
			)
		case !trial.Alike(whole.Type, data, part.Data, scale):
			return fmt.Errorf(
				"output %q of random rows is another one in a batch than alone: rows depend on each other", whole.Name,
			)
		}
	}
	p.varied[whole.Name] = p.varied[whole.Name] || varies(whole, int(total))
	return nil
}

// varies tells whether two rows of an output differ.
func varies(t *edgewise.Tensor, total int) bool {
	rest, err := newRows(t, total)
	if err != nil {
		return false
	}
	first, _ := rest.cut(1)
	for range total - 1 {
		if next, err := rest.cut(1); err != nil || string(next) != string(first) {
			return err == nil
		}
	}
	return false
}

// constant names an output that was the same for all rows so far; "": none.
func (p *proof) constant() string {
	for _, name := range p.s.checker.names {
		if !p.varied[name] {
			return name
		}
	}
	return ""
}

// sampled runs inputs once and returns copies of the outputs.
func (s *Scheduler) sampled(ctx context.Context, inputs []edgewise.Tensor) (outputs []edgewise.Tensor, err error) {
	result, _, err := s.runTrial(ctx, inputs)
	if err != nil {
		return nil, err
	}
	defer result.Free()
	for _, out := range result.Outputs {
		out.Data, out.Shape = slices.Clone(out.Data), slices.Clone(out.Shape)
		outputs = append(outputs, out)
	}
	return outputs, nil
}

// narrowed is a random part of a sample, times a magnitude: the largest number, the smallest and the mean of two
// requests are then others.
func (p *proof) narrowed(look trial.Range) trial.Range {
	times := math.Pow(10, leastPower+(mostPower-leastPower)*p.random.Float64())
	low := look.Low + (look.High-look.Low)*p.random.Float64()
	high := low + (look.High-low)*p.random.Float64()
	return trial.Range{Low: times * low, High: times * high, Integers: 1 + p.random.Int64N(look.Integers)}
}

// inputs makes the required inputs of a random request, as the backend sees them.
func (p *proof) inputs(rows int, look trial.Range) ([]edgewise.Tensor, error) {
	size := trial.Size{Rows: int64(rows), Open: p.open, Bytes: proofBytes / proofRows * int64(rows)}
	inputs, err := p.s.trialInputs(size, trial.Random(p.random, p.narrowed(look)))
	if err == nil && len(inputs) == 0 {
		err = errors.New("the model has no required inputs")
	}
	return inputs, err
}

// joined puts the rows of requests behind each other.
func joined(requests [][]edgewise.Tensor) []edgewise.Tensor {
	whole := slices.Clone(requests[0])
	for i := range whole {
		whole[i].Shape = slices.Clone(whole[i].Shape)
		whole[i].Data = slices.Clone(whole[i].Data)
		for _, more := range requests[1:] {
			whole[i].Shape[0] += more[i].Shape[0]
			whole[i].Data = append(whole[i].Data, more[i].Data...)
		}
	}
	return whole
}
