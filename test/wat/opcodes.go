package wat

import "strings"

// run is a sequence of instruction names whose opcodes follow each other; "-" leaves one out.
type run struct {
	prefix byte // 0, 0xfc or 0xfd
	first  uint32
	names  string
}

var runs = []run{
	{0, 0x00, "unreachable nop block loop if else"},
	{0, 0x0b, "end br br_if br_table return call call_indirect return_call return_call_indirect"},
	{0, 0x1a, "drop select"},
	{0, 0x20, "local.get local.set local.tee global.get global.set table.get table.set"},
	{0, 0x28, "i32.load i64.load f32.load f64.load i32.load8_s i32.load8_u i32.load16_s i32.load16_u i64.load8_s " +
		"i64.load8_u i64.load16_s i64.load16_u i64.load32_s i64.load32_u"},
	{0, 0x36, "i32.store i64.store f32.store f64.store i32.store8 i32.store16 i64.store8 i64.store16 i64.store32 memory.size memory.grow"},
	{0, 0x41, "i32.const i64.const f32.const f64.const"},
	{0, 0x45, "i32.eqz i32.eq i32.ne i32.lt_s i32.lt_u i32.gt_s i32.gt_u i32.le_s i32.le_u i32.ge_s i32.ge_u"},
	{0, 0x50, "i64.eqz i64.eq i64.ne i64.lt_s i64.lt_u i64.gt_s i64.gt_u i64.le_s i64.le_u i64.ge_s i64.ge_u"},
	{0, 0x5b, "f32.eq f32.ne f32.lt f32.gt f32.le f32.ge f64.eq f64.ne f64.lt f64.gt f64.le f64.ge"},
	{0, 0x67, "i32.clz i32.ctz i32.popcnt i32.add i32.sub i32.mul i32.div_s i32.div_u i32.rem_s i32.rem_u i32.and " +
		"i32.or i32.xor i32.shl i32.shr_s i32.shr_u i32.rotl i32.rotr"},
	{0, 0x79, "i64.clz i64.ctz i64.popcnt i64.add i64.sub i64.mul i64.div_s i64.div_u i64.rem_s i64.rem_u i64.and " +
		"i64.or i64.xor i64.shl i64.shr_s i64.shr_u i64.rotl i64.rotr"},
	{0, 0x8b, "f32.abs f32.neg f32.ceil f32.floor f32.trunc f32.nearest f32.sqrt f32.add f32.sub f32.mul f32.div " +
		"f32.min f32.max f32.copysign"},
	{0, 0x99, "f64.abs f64.neg f64.ceil f64.floor f64.trunc f64.nearest f64.sqrt f64.add f64.sub f64.mul f64.div " +
		"f64.min f64.max f64.copysign"},
	{0, 0xa7, "i32.wrap_i64 i32.trunc_f32_s i32.trunc_f32_u i32.trunc_f64_s i32.trunc_f64_u i64.extend_i32_s " +
		"i64.extend_i32_u i64.trunc_f32_s i64.trunc_f32_u i64.trunc_f64_s i64.trunc_f64_u"},
	{0, 0xb2, "f32.convert_i32_s f32.convert_i32_u f32.convert_i64_s f32.convert_i64_u f32.demote_f64 " +
		"f64.convert_i32_s f64.convert_i32_u f64.convert_i64_s f64.convert_i64_u f64.promote_f32"},
	{0, 0xbc, "i32.reinterpret_f32 i64.reinterpret_f64 f32.reinterpret_i32 f64.reinterpret_i64 i32.extend8_s " +
		"i32.extend16_s i64.extend8_s i64.extend16_s i64.extend32_s"},
	{0, 0xd0, "ref.null ref.is_null ref.func"},
	{0xfc, 0, "i32.trunc_sat_f32_s i32.trunc_sat_f32_u i32.trunc_sat_f64_s i32.trunc_sat_f64_u i64.trunc_sat_f32_s " +
		"i64.trunc_sat_f32_u i64.trunc_sat_f64_s i64.trunc_sat_f64_u"},
	{0xfc, 8, "memory.init data.drop memory.copy memory.fill table.init elem.drop table.copy table.grow table.size table.fill"},
	{0xfd, 0, "v128.load"},
	{0xfd, 11, "v128.store v128.const i8x16.shuffle i8x16.swizzle i8x16.splat i16x8.splat i32x4.splat i64x2.splat f32x4.splat f64x2.splat"},
	{0xfd, 27, "i32x4.extract_lane i32x4.replace_lane"},
	{0xfd, 77, "v128.not v128.and v128.andnot v128.or v128.xor"},
	{0xfd, 110, "i8x16.add"},
	{0xfd, 174, "i32x4.add"},
	{0xfd, 228, "f32x4.add f32x4.sub f32x4.mul f32x4.div"},
}

// opcode is how an instruction is encoded.
type opcode struct {
	prefix byte
	code   uint32
}

func (o opcode) encode(dst []byte) []byte {
	if o.prefix == 0 {
		return append(dst, byte(o.code))
	}
	return appendU(append(dst, o.prefix), uint64(o.code))
}

func opcodes() map[string]opcode {
	all := map[string]opcode{}
	for _, r := range runs {
		for i, name := range strings.Fields(r.names) {
			all[name] = opcode{r.prefix, r.first + uint32(i)}
		}
	}
	return all
}

// natural returns the exponent of an access's natural alignment.
func natural(name string) uint64 {
	switch {
	case strings.HasPrefix(name, "v128"):
		return 4
	case strings.Contains(name, "8"):
		return 0
	case strings.Contains(name, "16"):
		return 1
	case strings.Contains(name[3:], "32"):
		return 2
	case strings.HasPrefix(name, "i64") || strings.HasPrefix(name, "f64"):
		return 3
	}
	return 2
}

var valueTypes = map[string]byte{
	"i32": 0x7f, "i64": 0x7e, "f32": 0x7d, "f64": 0x7c, "v128": 0x7b, "funcref": 0x70,
	"externref": 0x6f, "func": 0x70, "extern": 0x6f,
}

func appendU(dst []byte, v uint64) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

func appendS(dst []byte, v int64) []byte {
	for {
		b := byte(v) & 0x7f
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(dst, b)
		}
		dst = append(dst, b|0x80)
	}
}
