package splintertest

import (
	"testing"
	"unicode/utf8"
)

// FuzzBytesOfClients gives any bytes to the functions that read a client's requests.
func FuzzBytesOfClients(f *testing.F) {
	for _, s := range []string{"", "ids=a&ids=b", "ids=%2C%zz%&wait", "a+b=%C3%28", "\x0a\x00", "\x0a\x04\x0a\x02\x0a\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, value := range parseQuery(s) {
			if utf8.ValidString(s) && !(utf8.ValidString(name) && utf8.ValidString(value)) {
				t.Fatalf("%q: %q is no UTF-8", name, value)
			}
		}
		list, err := decodeList([]byte(s))
		if err == nil {
			_ = verifyBatches(list)
		}
	})
}

func TestParseQuery(t *testing.T) {
	for raw, want := range map[string]string{
		"ids=a&ids=b": "b", "ids=a%2Cb": "a,b", "ids=a%2": "a%2", "ids=%zz": "%zz", "ids=a+b": "a b", "ids": "", "x=1&ids=a=b": "a=b",
		"ids=a;b": "a;b", "ids=%C3%28": "\uFFFD(",
	} {
		if got, there := parseQuery(raw)["ids"]; !there || got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
	if _, there := parseQuery("id=a")["ids"]; there {
		t.Error("a parameter that is not there")
	}
}
