package otelbatch

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// otherValue is the value of a label that stands for all values outside of its list.
const otherValue = "_OTHER"

// label is a label and all its values except otherValue. also returns attributes that go with a
// value.
type label struct {
	key             string
	values          []string
	extraAttributes func(value string) []attribute.KeyValue
}

// labelValues is the values of at most two labels.
type labelValues [2]string

// definition describes a metric, for docs/metrics.md.
type definition struct {
	name, kind, unit, text string
	labels                 []label
}

// instrumentBuilder makes instruments, and keeps their definitions and the first error.
type instrumentBuilder struct {
	meter       metric.Meter
	definitions []definition
	async       []metric.Observable
	counters    []counter
	err         error
}

func (b *instrumentBuilder) addDefinition(d definition, err error) {
	b.definitions = append(b.definitions, d)
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("%s: %w", d.name, err)
	}
}

// series has the attributes of all values of a metric's labels. They are made beforehand, so that
// measuring allocates nothing.
type series[O any] struct {
	labels []label
	byKey  map[labelValues][]O
}

// newSeries makes the attributes of each combination of the labels' values. The value "" of
// error.type means success and makes no attribute.
func newSeries[O any](labels []label, option func(metric.MeasurementOption) O) series[O] {
	s := series[O]{labels, map[labelValues][]O{}}
	var add func(k labelValues, i int, attrs []attribute.KeyValue)
	add = func(k labelValues, i int, attrs []attribute.KeyValue) {
		if i == len(labels) {
			s.byKey[k] = []O{option(metric.WithAttributeSet(attribute.NewSet(attrs...)))}
			return
		}
		for _, v := range append([]string{otherValue}, labels[i].values...) {
			k[i] = v
			with := slices.Clip(attrs)
			if v != "" {
				with = append(with, attribute.String(labels[i].key, v))
			}
			if also := labels[i].extraAttributes; also != nil {
				with = append(with, also(v)...)
			}
			add(k, i+1, with)
		}
	}
	add(labelValues{}, 0, nil)
	return s
}

// knownKey returns k with otherValue in place of values that are in no list.
func (s series[O]) knownKey(k labelValues) labelValues {
	if _, ok := s.byKey[k]; ok {
		return k
	}
	for i, l := range s.labels {
		if !slices.Contains(l.values, k[i]) {
			k[i] = otherValue
		}
	}
	return k
}

// counter counts in this process's memory, and is observed at a collection: to count costs an
// atomic addition and no allocation. A series begins at 0, so that an alert on an increase sees
// the first one.
type counter struct {
	gauge
	counts map[labelValues]*atomic.Int64
}

func (b *instrumentBuilder) counter(name, unit, text string, labels ...label) counter {
	c := counter{b.total(name, unit, text, labels...), map[labelValues]*atomic.Int64{}}
	for k := range c.byKey {
		c.counts[k] = new(atomic.Int64)
	}
	b.counters = append(b.counters, c)
	return c
}

func (c counter) add(n int, k labelValues) { c.counts[c.knownKey(k)].Add(int64(n)) }

func (c counter) observe(o metric.Observer) {
	for k, count := range c.counts {
		if n := count.Load(); n > 0 || k[0] != otherValue && k[1] != otherValue {
			c.count(o, int(n), k)
		}
	}
}

type histogram struct {
	recorder metric.Float64Histogram
	series[metric.RecordOption]
}

func (b *instrumentBuilder) histogram(name, unit, text string, bounds []float64, labels ...label) histogram {
	to, err := b.meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(text), metric.WithExplicitBucketBoundaries(bounds...))
	b.addDefinition(definition{name, "histogram", unit, text, labels}, err)
	return histogram{to, newSeries(labels, func(o metric.MeasurementOption) metric.RecordOption { return o })}
}

func (h histogram) record(ctx context.Context, v float64, k labelValues) {
	h.recorder.Record(ctx, v, h.byKey[h.knownKey(k)]...)
}

// gauge is observed at a collection.
type gauge struct {
	intGauge   metric.Int64Observable
	floatGauge metric.Float64Observable
	series[metric.ObserveOption]
}

func (b *instrumentBuilder) gauge(g gauge, d definition, err error) gauge {
	b.addDefinition(d, err)
	g.series = newSeries(d.labels, func(o metric.MeasurementOption) metric.ObserveOption { return o })
	if g.intGauge != nil {
		b.async = append(b.async, g.intGauge)
	} else {
		b.async = append(b.async, g.floatGauge)
	}
	return g
}

// number makes a gauge of how many of something there are.
func (b *instrumentBuilder) number(name, unit, text string, labels ...label) gauge {
	to, err := b.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(text))
	return b.gauge(gauge{intGauge: to}, definition{name, "gauge", unit, text, labels}, err)
}

// age makes a gauge of the time for which something is so.
func (b *instrumentBuilder) age(name, text string, labels ...label) gauge {
	to, err := b.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(text))
	return b.gauge(gauge{floatGauge: to}, definition{name, "gauge", "s", text, labels}, err)
}

// total makes a counter whose sum is read at a collection.
func (b *instrumentBuilder) total(name, unit, text string, labels ...label) gauge {
	to, err := b.meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(text))
	return b.gauge(gauge{intGauge: to}, definition{name, "counter", unit, text, labels}, err)
}

func (g gauge) count(o metric.Observer, n int, k labelValues) {
	o.ObserveInt64(g.intGauge, int64(n), g.byKey[g.knownKey(k)]...)
}

func (g gauge) seconds(o metric.Observer, v float64, k labelValues) {
	o.ObserveFloat64(g.floatGauge, v, g.byKey[g.knownKey(k)]...)
}
