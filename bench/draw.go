package bench

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// draw chooses the keys of attempts. It is shared by all threads and does not
// change; the randomness is the caller's.
type draw struct {
	keys  uint64
	alias []aliasCell // nil: uniform
}

// aliasCell is one column of the alias method (Walker, Vose): any distribution
// over n keys in two memory accesses at most.
type aliasCell struct {
	keep  uint32 // the chance of this column's own key, in 2^-32; the most counts as certain
	other uint32 // the key otherwise
}

func newDraw(dist Dist, keys int) *draw {
	switch dist {
	case Zipf:
		return &draw{keys: uint64(keys), alias: aliasTable(zipfWeights(keys))}
	case Single:
		return &draw{keys: 1}
	}
	return &draw{keys: uint64(keys)}
}

// zipfWeights are the chances of the keys, 1 together.
func zipfWeights(n int) []float64 {
	weights, sum := make([]float64, n), 0.0
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -zipfExponent)
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
	return weights
}

// aliasTable cuts the weights into n columns of equal height with at most two
// keys in each.
func aliasTable(weights []float64) []aliasCell {
	n := len(weights)
	cells := make([]aliasCell, n)
	var small, large []uint32
	for i := range weights {
		weights[i] *= float64(n)
		if weights[i] < 1 {
			small = append(small, uint32(i))
		} else {
			large = append(large, uint32(i))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		cells[s] = aliasCell{keep: uint32(weights[s] * (1 << 32)), other: l}
		weights[l] -= 1 - weights[s]
		if weights[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, rest := range [][]uint32{small, large} { // 1 but for rounding
		for _, i := range rest {
			cells[i] = aliasCell{keep: math.MaxUint32, other: i}
		}
	}
	return cells
}

// next draws a key.
func (d *draw) next(r *rand.PCG) uint32 {
	if d.keys == 1 {
		return 0
	}
	column, _ := bits.Mul64(r.Uint64(), d.keys)
	if d.alias == nil {
		return uint32(column)
	}
	cell := d.alias[column]
	if uint32(r.Uint64()>>32) <= cell.keep {
		return uint32(column)
	}
	return cell.other
}
