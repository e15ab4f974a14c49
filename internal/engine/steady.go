package engine

import (
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/queuer"
)

// steady is a strategy of the application whose Window and ReliesOnOrder New has asked. Both are always
// the same, and are asked in many places where nobody contains a panic, so nobody asks again.
type steady struct {
	queuer.Strategy
	window  int
	reliant bool
}

// Window returns the answer that New got.
func (s steady) Window() int { return s.window }

// ReliesOnOrder returns the answer that New got.
func (s steady) ReliesOnOrder() bool { return s.reliant }

// Given returns the application's strategy, whose type is shown and recorded.
func (s steady) Given() queuer.Strategy { return s.Strategy }

// steadySparing is steady for a strategy that is Sparing.
type steadySparing struct {
	steady
	sparing queuer.Sparing
}

// Wants asks the application's strategy.
func (s steadySparing) Wants(attempted batch.Lane) int { return s.sparing.Wants(attempted) }

// steadied asks a strategy and returns it with its answers. The strategies of package queuer stay as they
// are: the queuer and the records know their types.
func steadied(s queuer.Strategy) (queuer.Strategy, error) {
	answers := steady{Strategy: s}
	for method, ask := range map[string]func(){
		"Window":        func() { answers.window = s.Window() },
		"ReliesOnOrder": func() { answers.reliant = queuer.ReliesOnOrder(s) },
	} {
		if err := loop.Contain(func() error { ask(); return nil }); err != nil {
			return nil, fmt.Errorf("%w: %w", BadOption("Strategy", fmt.Sprintf("%T", s), "one whose "+method+" does not panic"), err)
		}
	}
	switch s.(type) {
	case queuer.Serial, queuer.Pipelined, *queuer.Parallel:
		return s, nil
	}
	if sparing, ok := s.(queuer.Sparing); ok {
		return steadySparing{answers, sparing}, nil
	}
	return answers, nil
}

// strategyType names the type of the application's strategy.
func (o Options) strategyType() string {
	if s, ok := o.Strategy.(interface{ Given() queuer.Strategy }); ok {
		return fmt.Sprintf("%T", s.Given())
	}
	return fmt.Sprintf("%T", o.Strategy)
}
