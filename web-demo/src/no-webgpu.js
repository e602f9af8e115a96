/** Stands where the WebGPU module will be. The page asks for the CPU until then, so nobody gets here. */
export default function init() {
  throw new Error('the WebGPU module is still being built');
}

export const EncoderBuilder = undefined;
export const QuestionEncoder = undefined;
export const Reader = undefined;
export const CrossEncoder = undefined;
