import type { DeviceChoice, DtypeChoice } from 'dpr-web';
import { byId } from './dom.js';

/** What the selectors say. Kept in the address, so that a reload or a shared link keeps them. */
export interface Settings {
  device: DeviceChoice;
  dtype: DtypeChoice;
  /** The small encoder of the server; `undefined` for its own. */
  encoder: 'small' | undefined;
}

const DEVICES: readonly string[] = ['auto', 'webgpu', 'cpu'] satisfies DeviceChoice[];
const DTYPES: readonly string[] = ['auto', 'f32', 'f16', 'q8', 'q4'] satisfies DtypeChoice[];

/** Shows the settings of the address and calls `onChange` with each choice. Returns the first ones. */
export function settingsControls(onChange: (settings: Settings) => void): Settings {
  const query = new URLSearchParams(location.search);
  const settings: Settings = {
    device: oneOf(DEVICES, query.get('device')) as DeviceChoice,
    dtype: oneOf(DTYPES, query.get('dtype')) as DtypeChoice,
    encoder: query.get('encoder') === 'small' ? 'small' : undefined,
  };
  const device = byId('device');
  const dtype = byId<HTMLSelectElement>('dtype');
  device.querySelector<HTMLInputElement>(`input[value=${settings.device}]`)!.checked = true;
  const encoder = byId<HTMLSelectElement>('encoder');
  dtype.value = settings.dtype;
  encoder.value = settings.encoder ?? '';
  byId('encoder-picker').hidden = !settings.encoder;

  const changed = () => {
    const next: Settings = {
      device: device.querySelector<HTMLInputElement>('input:checked')!.value as DeviceChoice,
      dtype: dtype.value as DtypeChoice,
      encoder: encoder.value === 'small' ? 'small' : undefined,
    };
    history.replaceState(null, '', address(next));
    onChange(next);
  };
  device.addEventListener('change', changed);
  dtype.addEventListener('change', changed);
  encoder.addEventListener('change', changed);
  return settings;
}

function oneOf(known: readonly string[], value: string | null): string {
  return value !== null && known.includes(value) ? value : 'auto';
}

function address({ device, dtype, encoder }: Settings): string {
  const query = new URLSearchParams();
  if (device !== 'auto') query.set('device', device);
  if (dtype !== 'auto') query.set('dtype', dtype);
  if (encoder) query.set('encoder', encoder);
  const text = query.toString();
  return location.pathname + (text && `?${text}`);
}
