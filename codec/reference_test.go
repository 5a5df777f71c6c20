package codec

// The reference reads a stream one byte at a time, the way §1 and §2 tell it,
// and shares nothing with the parsers: no header by offset, no search, no
// unicode/utf8. It is slow, and plain enough to be checked by eye.

// refFrame is what the reference makes of one frame.
type refFrame struct {
	start   int // offset of the frame's first byte in the stream
	decided int // bytes of the stream that must be there for this outcome

	fault  string // "", or why the stream is malformed here
	op     byte
	header []byte
	text   []byte
}

// Bytes of the fixed header behind the op, from the table of §1.
var (
	refRequestHeaders = map[byte]int{'A': 10, 'R': 8}
	refReplyHeaders   = map[byte]int{'A': 16, 'T': 8, 'B': 8, 'R': 8, 'N': 8, 'M': 0, 'L': 0, 'E': 0}
)

// refRead returns the frames of a stream, whole or malformed, in order. Nothing
// follows a malformed one, and a frame that is not whole is left out. judge
// names what is wrong with a whole frame's fields, or returns "".
func refRead(stream []byte, headers map[byte]int, keepAlive bool, judge func(refFrame) string) []refFrame {
	const (
		atOp = iota
		inHeader
		inText
	)
	var frames []refFrame
	var frame refFrame
	state, missing, size := atOp, 0, 0
	for i, c := range stream {
		size++
		done := false
		switch state {
		case atOp:
			frame = refFrame{start: i, op: c}
			known := false
			missing, known = headers[c]
			switch {
			case keepAlive && c == '\n':
				done = true
			case !known:
				frame.fault = "bad_op"
			case missing == 0:
				state = inText
			default:
				state = inHeader
			}
		case inHeader:
			frame.header = append(frame.header, c)
			if missing--; missing == 0 {
				state = inText
			}
		case inText:
			if c == '\n' {
				done = true
				frame.fault = judge(frame)
				break
			}
			frame.text = append(frame.text, c)
			if size == 193 {
				frame.fault = "line_too_long"
			}
		}
		if done || frame.fault != "" {
			frame.decided = i + 1
			frames = append(frames, frame)
			state, size = atOp, 0
		}
		if frame.fault != "" {
			break
		}
	}
	return frames
}

func refJudgeRequest(f refFrame) string {
	if f.op == 'A' {
		if lease := f.header[1]; lease == 0 || lease > 250 {
			return "bad_lease"
		}
	}
	if !refKey(f.text) {
		return "bad_key"
	}
	return ""
}

func refJudgeReply(f refFrame) string {
	if f.op == 'A' && refNumber(f.header[:8]) == 0 {
		return "token"
	}
	if len(f.header) > 0 && !refKey(f.text) {
		return "key"
	}
	return ""
}

func refNumber(b []byte) uint64 {
	var n uint64
	for _, c := range b {
		n = n*256 + uint64(c)
	}
	return n
}

func refKey(text []byte) bool {
	for _, c := range text {
		if c == 0x20 || c == 0x0A {
			return false
		}
	}
	return 1 <= len(text) && len(text) <= 128 && refUTF8(text)
}

// refUTF8 follows table 3-7 of the Unicode standard, well-formed UTF-8.
func refUTF8(text []byte) bool {
	missing, low, high := 0, byte(0x80), byte(0xBF)
	for _, c := range text {
		if missing > 0 {
			if c < low || c > high {
				return false
			}
			missing, low, high = missing-1, 0x80, 0xBF
			continue
		}
		switch {
		case c <= 0x7F:
		case 0xC2 <= c && c <= 0xDF:
			missing = 1
		case c == 0xE0:
			missing, low = 2, 0xA0
		case c == 0xED:
			missing, high = 2, 0x9F
		case 0xE1 <= c && c <= 0xEF:
			missing = 2
		case c == 0xF0:
			missing, low = 3, 0x90
		case 0xF1 <= c && c <= 0xF3:
			missing = 3
		case c == 0xF4:
			missing, high = 3, 0x8F
		default:
			return false
		}
	}
	return missing == 0
}
