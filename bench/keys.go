package bench

import (
	"math/rand/v2"
	"strings"
)

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// digitsFor is how many characters of the alphabet tell n keys apart.
func digitsFor(n int) int {
	digits := 1
	for room := len(alphabet); room < n; room *= len(alphabet) {
		digits++
	}
	return digits
}

// keySet has the names of the keys: what is the same for all keys of a run and
// differs between runs, then the key's number in digits of the alphabet.
type keySet struct {
	stem   []byte
	digits int
}

func newKeySet(n, size int, random *rand.Rand) *keySet {
	k := &keySet{digits: digitsFor(n)}
	var stem strings.Builder
	if size-k.digits >= 14 { // room for a name that says where the key comes from
		stem.WriteString("bench:")
	}
	for stem.Len() < size-k.digits {
		stem.WriteByte(alphabet[random.IntN(len(alphabet))])
	}
	k.stem = []byte(stem.String())
	return k
}

// appendKey appends the name of key i.
func (k *keySet) appendKey(dst []byte, i uint32) []byte {
	dst = append(dst, k.stem...)
	for d := k.digits - 1; d >= 0; d-- {
		dst = append(dst, alphabet[i>>(6*uint(d))&63])
	}
	return dst
}

// is reports whether text is the name of key i.
func (k *keySet) is(text []byte, i uint32) bool {
	stem := len(k.stem)
	if len(text) != stem+k.digits || string(text[:stem]) != string(k.stem) {
		return false
	}
	for at := len(text) - 1; at >= stem; at-- {
		if text[at] != alphabet[i&63] {
			return false
		}
		i >>= 6
	}
	return true
}

func (k *keySet) name(i uint32) string { return string(k.appendKey(nil, i)) }
