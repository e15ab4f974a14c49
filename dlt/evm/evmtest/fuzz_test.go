package evmtest

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// FuzzRequest sends any body: the node answers with JSON, or not at all, and still works
// afterwards.
func FuzzRequest(f *testing.F) {
	raw, hash := Dev(0).Sign(Unsigned{ChainID: 1337, To: deadAddress})
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		f.Add(`{"jsonrpc":"2.0","id":1,"method":"` + name + `","params":[]}`)
	}
	for _, name := range []string{sendMethod, "eth_getTransactionCount", "eth_feeHistory", "anvil_reorg"} {
		for _, params := range []string{
			`["` + hexBytes(raw) + `"]`, `["` + hash + `",true]`, `["` + deadAddress + `","latest"]`, `["0x2",["0x1"]]`, `[3,[["0x02",0]]]`,
			`["` + deadAddress + `",{"blockHash":"` + hash + `"}]`, `["0x4","latest",[10,50]]`, `[true]`, `[{"to":"` + deadAddress + `","data":"0x00"}]`, `{}`,
		} {
			f.Add(`{"jsonrpc":"2.0","id":1,"method":"` + name + `","params":` + params + `}`)
		}
	}
	f.Add(`[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},{"method":"eth_chainId"},1]`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, p := range []Personality{Geth, Anvil, Provider} {
			n := NewNode(&Options{Personality: p, BlockTime: -1})
			for range 2 {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
				r.Header.Set("Content-Type", jsonType)
				w := httptest.NewRecorder()
				n.ServeHTTP(w, r)
				if text := w.Body.Bytes(); len(text) > 0 && !json.Valid(text) {
					t.Fatalf("%s: %s", p, text)
				}
			}
			n.Mine()
		}
	})
}
