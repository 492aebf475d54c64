package rollout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/edgewise-ai/edgewise/api/admin"
)

// planOptions are the options that make a plan.
type planOptions struct {
	stages                          []string
	sticky, metric                  string
	watch, longer                   time.Duration
	alarm, slower, shadow, disagree float64
}

// register gives a command the options.
func (o *planOptions) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&o.stages, "stage", nil, "PERCENT:TIME:REQUESTS, such as 5:10m:500; time or requests may be 0;\n"+
		"give it once for each stage (default 5:10m:500, 25:10m:2000, 50:10m:2000)")
	flags.StringVar(&o.sticky, "sticky", "", "requests that stay together: caller, or parameter:NAME")
	flags.DurationVar(&o.watch, "watch", time.Hour, "how long the version before it stays loaded once it is live")
	flags.Float64Var(&o.alarm, "false-alarm", 1, "chance, in percent, that a version is taken back without being worse")
	flags.Float64Var(&o.slower, "slower", 10, "how much longer requests may take, in percent")
	flags.DurationVar(&o.longer, "longer", 500*time.Microsecond, "how much longer they may take, if that is more")
	flags.Float64Var(&o.shadow, "shadow", 0,
		"share, in percent, of the requests to the live version that the new one answers as well,\n"+
			"for comparison by the rules of the goldens; a stage of 0 % counts these")
	flags.Float64Var(&o.disagree, "disagree", 0.5, "how many of these answers may differ, in percent")
	flags.StringVar(&o.metric, "metric", "", "a number of each answer that may be worse by so much on average, such as\n"+
		"output=scores,reduce=max,low=0,high=1,worse=lower,by=0.02")
}

// plan returns the plan for a version, with what was given to the command: without any option it is that of the model.
// Errors are for people.
func (o *planOptions) plan(cmd *cobra.Command, version int64) (plan admin.RolloutPlan, err error) {
	seconds, microseconds := int64(o.watch/time.Second), o.longer.Microseconds()
	plan = admin.RolloutPlan{
		Version: version, Sticky: o.sticky, WatchSeconds: given(cmd, "watch", seconds),
		FalseAlarmPercent: given(cmd, "false-alarm", o.alarm), LatencyPercent: given(cmd, "slower", o.slower),
		LatencyMicroseconds: given(cmd, "longer", microseconds),
	}
	for _, text := range o.stages {
		stage, err := admin.ParseRolloutStage(text)
		if err != nil {
			return plan, err
		}
		plan.Stages = append(plan.Stages, stage)
	}
	if o.shadow != 0 {
		plan.Shadow = &admin.RolloutShadow{Percent: o.shadow, DisagreementPercent: given(cmd, "disagree", o.disagree)}
	}
	if o.metric != "" {
		plan.Metric, err = parseMetric(o.metric)
	}
	return plan, err
}

// given returns the value of an option that was given, else nil.
func given[T any](cmd *cobra.Command, option string, value T) *T {
	if !cmd.Flags().Changed(option) {
		return nil
	}
	return &value
}

// parseMetric reads members as NAME=VALUE, with commas between them.
func parseMetric(text string) (*admin.OutputMetric, error) {
	m := &admin.OutputMetric{}
	texts := map[string]*string{"name": &m.Name, "output": &m.Output, "reduce": &m.Reduce, "worse": &m.Worse}
	numbers := map[string]*float64{"above": &m.Above, "low": &m.Low, "high": &m.High, "by": &m.By}
	var given []string
	for member := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(member, "=")
		given = append(given, name)
		if to := texts[name]; to != nil {
			*to = value
			continue
		}
		to := numbers[name]
		if to == nil {
			return nil, fmt.Errorf("metric: there is no %.40q: want name, output, reduce, above, low, high, worse and by", name)
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metric: %s is %.40q: want a number", name, value)
		}
		*to = v
	}
	for _, name := range []string{"output", "reduce", "low", "high", "worse", "by"} {
		if !slices.Contains(given, name) {
			return nil, fmt.Errorf("metric: %s is missing", name)
		}
	}
	return m, nil
}
