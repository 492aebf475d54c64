#include "textflag.h"

DATA half<>+0(SB)/4, $0.5
GLOBL half<>(SB), RODATA|NOPTR, $4

// Of four pixels in 12 bytes, one colour each, every sample in four bytes.
DATA colours<>+0(SB)/8, $0xffffff03ffffff00
DATA colours<>+8(SB)/8, $0xffffff09ffffff06
DATA colours<>+16(SB)/8, $0xffffff04ffffff01
DATA colours<>+24(SB)/8, $0xffffff0affffff07
DATA colours<>+32(SB)/8, $0xffffff05ffffff02
DATA colours<>+40(SB)/8, $0xffffff0bffffff08
GLOBL colours<>(SB), RODATA|NOPTR, $48

// func weighAVX2(dst *float32, src *byte, across *pair, n int)
TEXT ·weighAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ across+16(FP), DX
	MOVQ n+24(FP), CX

weigh:
	MOVLQSX      (DX), AX
	VPMOVZXBD    (SI)(AX*1), X0
	VPMOVZXBD    3(SI)(AX*1), X1
	VBROADCASTSS 4(DX), X2
	VBROADCASTSS 8(DX), X3
	VCVTDQ2PS    X0, X0
	VCVTDQ2PS    X1, X1
	VMULPS       X0, X2, X0
	VMULPS       X1, X3, X1
	VADDPS       X1, X0, X0
	VMOVUPS      X0, (DI)
	ADDQ         $12, DX
	ADDQ         $12, DI
	DECQ         CX
	JNZ          weigh
	VZEROUPPER
	RET

// func blendAVX2(out *byte, a, b *float32, n int, wa, wb float32)
TEXT ·blendAVX2(SB), NOSPLIT, $0-40
	MOVQ         out+0(FP), DI
	MOVQ         a+8(FP), SI
	MOVQ         b+16(FP), DX
	MOVQ         n+24(FP), CX
	VBROADCASTSS wa+32(FP), Y14
	VBROADCASTSS wb+36(FP), Y15
	VBROADCASTSS half<>(SB), Y13

blend:
	VMULPS       (SI), Y14, Y0
	VMULPS       32(SI), Y14, Y1
	VMULPS       (DX), Y15, Y2
	VMULPS       32(DX), Y15, Y3
	VADDPS       Y0, Y13, Y0
	VADDPS       Y1, Y13, Y1
	VADDPS       Y2, Y0, Y0
	VADDPS       Y3, Y1, Y1
	VCVTTPS2DQ   Y0, Y0
	VCVTTPS2DQ   Y1, Y1
	VPACKUSDW    Y1, Y0, Y0
	VPERMQ       $0xd8, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPACKUSWB    X1, X0, X0
	VMOVDQU      X0, (DI)
	ADDQ         $64, SI
	ADDQ         $64, DX
	ADDQ         $16, DI
	SUBQ         $16, CX
	JNZ          blend
	VZEROUPPER
	RET

// func splitAVX2(first, second, third *byte, src *byte, n int, mean, scale *[3]float32)
TEXT ·splitAVX2(SB), NOSPLIT, $0-56
	MOVQ           first+0(FP), R8
	MOVQ           second+8(FP), R9
	MOVQ           third+16(FP), R10
	MOVQ           src+24(FP), SI
	MOVQ           n+32(FP), CX
	MOVQ           mean+40(FP), AX
	MOVQ           scale+48(FP), BX
	VBROADCASTSS   (AX), Y4
	VBROADCASTSS   4(AX), Y5
	VBROADCASTSS   8(AX), Y6
	VBROADCASTSS   (BX), Y7
	VBROADCASTSS   4(BX), Y8
	VBROADCASTSS   8(BX), Y9
	VBROADCASTI128 colours<>+0(SB), Y10
	VBROADCASTI128 colours<>+16(SB), Y11
	VBROADCASTI128 colours<>+32(SB), Y12

split:
	VMOVDQU     (SI), X0
	VINSERTI128 $1, 12(SI), Y0, Y0
	VPSHUFB     Y10, Y0, Y1
	VPSHUFB     Y11, Y0, Y2
	VPSHUFB     Y12, Y0, Y3
	VCVTDQ2PS   Y1, Y1
	VCVTDQ2PS   Y2, Y2
	VCVTDQ2PS   Y3, Y3
	VSUBPS      Y4, Y1, Y1
	VSUBPS      Y5, Y2, Y2
	VSUBPS      Y6, Y3, Y3
	VMULPS      Y7, Y1, Y1
	VMULPS      Y8, Y2, Y2
	VMULPS      Y9, Y3, Y3
	VMOVUPS     Y1, (R8)
	VMOVUPS     Y2, (R9)
	VMOVUPS     Y3, (R10)
	ADDQ        $24, SI
	ADDQ        $32, R8
	ADDQ        $32, R9
	ADDQ        $32, R10
	SUBQ        $8, CX
	JNZ         split
	VZEROUPPER
	RET
