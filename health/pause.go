package health

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// Pause is a ledger, or one service, to which nothing is posted at present, because the ledger is
// busy, cannot be reached, or refuses this client.
type Pause struct {
	Ledger string `json:"ledger"`
	// Service is the paused service. If All is true the whole ledger is paused, and Service is "".
	Service batch.ServiceID `json:"service,omitzero"`
	All     bool            `json:"all,omitzero"`
	Since   time.Time       `json:"since"`
	// Because is the last reason, which may have changed since the pause began. In JSON it is the
	// text, as because.
	Because error `json:"-"`
}

// Kind returns the kind of the reason: [batch.KindMisconfigured] (the ledger refuses this client),
// [batch.KindUnavailable] (it cannot be reached) or [batch.KindBusy].
func (p Pause) Kind() batch.ErrorKind {
	switch kind := dlt.Kind(p.Because); {
	case p.Because == nil:
		return batch.KindBusy
	case kind == batch.KindMisconfigured, kind == batch.KindBusy:
		return kind
	}
	return batch.KindUnavailable
}

// Compare is the order of pauses: whole ledgers come first, and longer pauses before shorter ones.
func (p Pause) Compare(q Pause) int {
	whole := map[bool]int{true: -1}
	return cmp.Or(whole[p.All]-whole[q.All], p.Since.Compare(q.Since), cmp.Compare(p.Ledger, q.Ledger), cmp.Compare(p.Service, q.Service))
}

// MarshalJSON writes the reason as its text.
func (p Pause) MarshalJSON() ([]byte, error) {
	type plain Pause
	return json.Marshal(struct {
		plain
		Because string `json:"because,omitzero"`
	}{plain(p), errorText(p.Because)})
}

// UnmarshalJSON reads the output of MarshalJSON. The reason comes back as a text only.
func (p *Pause) UnmarshalJSON(data []byte) error {
	type plain Pause
	v := struct {
		*plain
		Because string `json:"because"`
	}{plain: (*plain)(p)}
	err := json.Unmarshal(data, &v)
	p.Because = textError(v.Because)
	return err
}
