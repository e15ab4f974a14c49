package dlt

// The interfaces that a wrapped ledger implements beside [Ledger].
const (
	resolves = 1 << iota
	streams
	checks
	prepares
	lists
)

// exactly returns w with the methods of exactly the interfaces in has. Go has no shorter way
// to a value whose method set is known at run time only.
//
//nolint:gocyclo // one case for each of 32 sets, and nothing in any of them
func exactly(has int, w wrapped, r Resolver, e EventSource, c Checker, p Preparer, l ListSubmitter) Ledger {
	switch has {
	case resolves:
		return struct {
			wrapped
			Resolver
		}{w, r}
	case streams:
		return struct {
			wrapped
			EventSource
		}{w, e}
	case resolves | streams:
		return struct {
			wrapped
			Resolver
			EventSource
		}{w, r, e}
	case checks:
		return struct {
			wrapped
			Checker
		}{w, c}
	case resolves | checks:
		return struct {
			wrapped
			Resolver
			Checker
		}{w, r, c}
	case streams | checks:
		return struct {
			wrapped
			EventSource
			Checker
		}{w, e, c}
	case resolves | streams | checks:
		return struct {
			wrapped
			Resolver
			EventSource
			Checker
		}{w, r, e, c}
	case prepares:
		return struct {
			wrapped
			Preparer
		}{w, p}
	case resolves | prepares:
		return struct {
			wrapped
			Resolver
			Preparer
		}{w, r, p}
	case streams | prepares:
		return struct {
			wrapped
			EventSource
			Preparer
		}{w, e, p}
	case resolves | streams | prepares:
		return struct {
			wrapped
			Resolver
			EventSource
			Preparer
		}{w, r, e, p}
	case checks | prepares:
		return struct {
			wrapped
			Checker
			Preparer
		}{w, c, p}
	case resolves | checks | prepares:
		return struct {
			wrapped
			Resolver
			Checker
			Preparer
		}{w, r, c, p}
	case streams | checks | prepares:
		return struct {
			wrapped
			EventSource
			Checker
			Preparer
		}{w, e, c, p}
	case resolves | streams | checks | prepares:
		return struct {
			wrapped
			Resolver
			EventSource
			Checker
			Preparer
		}{w, r, e, c, p}
	case lists:
		return struct {
			wrapped
			ListSubmitter
		}{w, l}
	case resolves | lists:
		return struct {
			wrapped
			Resolver
			ListSubmitter
		}{w, r, l}
	case streams | lists:
		return struct {
			wrapped
			EventSource
			ListSubmitter
		}{w, e, l}
	case resolves | streams | lists:
		return struct {
			wrapped
			Resolver
			EventSource
			ListSubmitter
		}{w, r, e, l}
	case checks | lists:
		return struct {
			wrapped
			Checker
			ListSubmitter
		}{w, c, l}
	case resolves | checks | lists:
		return struct {
			wrapped
			Resolver
			Checker
			ListSubmitter
		}{w, r, c, l}
	case streams | checks | lists:
		return struct {
			wrapped
			EventSource
			Checker
			ListSubmitter
		}{w, e, c, l}
	case resolves | streams | checks | lists:
		return struct {
			wrapped
			Resolver
			EventSource
			Checker
			ListSubmitter
		}{w, r, e, c, l}
	case prepares | lists:
		return struct {
			wrapped
			Preparer
			ListSubmitter
		}{w, p, l}
	case resolves | prepares | lists:
		return struct {
			wrapped
			Resolver
			Preparer
			ListSubmitter
		}{w, r, p, l}
	case streams | prepares | lists:
		return struct {
			wrapped
			EventSource
			Preparer
			ListSubmitter
		}{w, e, p, l}
	case resolves | streams | prepares | lists:
		return struct {
			wrapped
			Resolver
			EventSource
			Preparer
			ListSubmitter
		}{w, r, e, p, l}
	case checks | prepares | lists:
		return struct {
			wrapped
			Checker
			Preparer
			ListSubmitter
		}{w, c, p, l}
	case resolves | checks | prepares | lists:
		return struct {
			wrapped
			Resolver
			Checker
			Preparer
			ListSubmitter
		}{w, r, c, p, l}
	case streams | checks | prepares | lists:
		return struct {
			wrapped
			EventSource
			Checker
			Preparer
			ListSubmitter
		}{w, e, c, p, l}
	case resolves | streams | checks | prepares | lists:
		return struct {
			wrapped
			Resolver
			EventSource
			Checker
			Preparer
			ListSubmitter
		}{w, r, e, c, p, l}
	}
	return w
}
